/** Files as a person drops or chooses them, with the paths they have below the scene's folder. Pure. */
export interface Picked {
  path: string;
  file: File;
}

// What editors and systems leave behind; nobody renders it.
const LITTER = /(^|\/)(\.DS_Store|Thumbs\.db|desktop\.ini|\.git\/.*|__MACOSX\/.*|.*\.blend\d+|.*~)$/i;

/** The path of a dropped or chosen file, without the name of the one folder they all came from. */
export function picked(files: readonly File[]): Picked[] {
  const all = files.map((file) => ({ path: pathOf(file), file })).filter(({ path }) => path && !LITTER.test(path));
  const tops = new Set(all.map(({ path }) => (path.includes("/") ? path.slice(0, path.indexOf("/")) : "")));
  const top = tops.size === 1 ? [...tops][0] : "";
  return top ? all.map(({ path, file }) => ({ path: path.slice(top.length + 1), file })) : all;
}

function pathOf(file: File): string {
  const given = (file as File & { path?: string }).path || file.webkitRelativePath || file.name;
  return given.replace(/^\.?\/+/, "").normalize("NFC");
}

/** Files that are added later take the place of those with their path. */
export function merged(before: readonly Picked[], more: readonly Picked[]): Picked[] {
  const byPath = new Map(before.map((each) => [each.path, each]));
  for (const each of more) byPath.set(each.path, each);
  return [...byPath.values()];
}

/** The .blend files a scene could begin with, those nearest the top first. */
export function entries(files: readonly Picked[]): string[] {
  const depth = (path: string) => path.split("/").length;
  return files
    .map(({ path }) => path)
    .filter((path) => path.toLowerCase().endsWith(".blend"))
    .sort((a, b) => depth(a) - depth(b) || a.localeCompare(b));
}
