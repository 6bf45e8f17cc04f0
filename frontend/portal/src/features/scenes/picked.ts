/** Files as a person drops or chooses them, with the paths they have below the scene's folder. Pure. */
export interface Picked {
  /** Below the scene's folder. */
  path: string;
  /** As it was given, with the name of the folder that was dropped. */
  given: string;
  file: File;
}

export interface Taken {
  files: Picked[];
  /** The folder they all came from, with its slash; "" if there was none. */
  top: string;
  /** What editors and systems leave behind, and nobody renders. */
  leftOut: number;
}

const LEFT_BEHIND = new Set(
  [".git", ".svn", ".hg", "__pycache__", ".DS_Store", "__MACOSX", "Thumbs.db", "desktop.ini", ".farmhand-parts"].map(
    (name) => name.toLowerCase(),
  ),
);
const BACKUP = /\.blend(\d{1,2}|@)$/i;

export const isLitter = (name: string) => LEFT_BEHIND.has(name.toLowerCase()) || BACKUP.test(name);

/**
 * Take what was dropped or chosen, without litter, and without the name of the one folder they all came from.
 *
 * What comes later lies beside what is there, under its own name, unless it is that same folder again (`scene`).
 */
export function take(files: readonly File[], scene?: string): Taken {
  const given = files.map((file) => ({ given: givenPath(file), file }));
  const kept = given.filter(({ given: path }) => path && !path.split("/").some(isLitter));
  const top = topOf(kept.map(({ given: path }) => path));
  const cut = scene === undefined || scene === top ? top.length : 0;
  return {
    files: kept.map((each) => ({ ...each, path: each.given.slice(cut) })),
    top,
    leftOut: given.length - kept.length,
  };
}

/** The folder that all lie in, with its slash; "" if they lie in none or in several. */
function topOf(paths: readonly string[]): string {
  const tops = new Set(paths.map((path) => path.slice(0, path.indexOf("/") + 1)));
  return tops.size === 1 ? ([...tops][0] ?? "") : "";
}

/** Names are text in its usual form, whatever form a file system keeps them in. */
function givenPath(file: File): string {
  const path = (file as File & { path?: string }).path || file.webkitRelativePath || file.name;
  return path.replace(/^(\.?\/+)+/, "").normalize("NFC");
}

export const folderOf = (path: string) => path.slice(0, path.lastIndexOf("/") + 1);
export const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
export const sizeOf = (files: readonly Picked[]) => files.reduce((all, { file }) => all + file.size, 0);

/** Files that are added later take the place of those with their path. */
export function merged(before: readonly Picked[], more: readonly Picked[]): Picked[] {
  const byPath = new Map(before.map((each) => [each.path, each]));
  for (const each of more) byPath.set(each.path, each);
  return [...byPath.values()];
}

export interface Opening {
  /** The .blend files a scene could begin with, nearest to the top first. */
  choices: string[];
  /** The only one nearest to the top; several ask for a person's word. */
  guess: string | undefined;
}

export function opening(paths: readonly string[]): Opening {
  const depth = (path: string) => path.split("/").length;
  const choices = paths
    .filter((path) => path.toLowerCase().endsWith(".blend"))
    .sort((a, b) => depth(a) - depth(b) || a.localeCompare(b));
  const [first, second] = choices;
  const isOne = first !== undefined && (second === undefined || depth(second) > depth(first));
  return { choices, guess: isOne ? first : undefined };
}

/** What a scene is called after the file that opens it. */
export const sceneName = (entry: string) => nameOf(entry).replace(/\.blend$/i, "");
