/**
 * Where files that were missing belong: found by their names, and by as much of their folders as agrees. Pure.
 *
 * A scene looks for `//textures/wood.png` or `C:\maps\wood.png`; a person drops `wood.png`, or the folder it is in. A file
 * that is looked for outside the upload travels with the spelling that the scene has for it, and the farm maps that.
 */
import type { Schema } from "@/api/client";
import { nameOf, type Picked } from "./picked";
import type { Place } from "./plan";

export type Dependency = Schema["ReportDependency"];

/** Where files lie that the scene looks for outside of the upload. */
const OUTSIDE = "added";

export interface Placing {
  /** By the picked file's path. */
  places: Map<string, Place[]>;
  /** The dependencies of which something was found. */
  answered: Set<Dependency>;
  /** Files that nothing looked for by name; they are laid out as they were given. */
  others: number;
}

export const isLacking = ({ needed, packed, state }: Dependency) => needed && !packed && state !== "found";

/** Whether the scene names a file above its own folder: only a larger folder can hold that. */
export const isAbove = ({ state, absolute }: Dependency) => state === "outside" && !absolute;

interface Want {
  dependency: Dependency;
  folder: string[];
  matches: (name: string) => boolean;
  place: (name: string) => Place;
}

const parts = (path: string) => path.split(/[\\/]+/).filter(Boolean);
const lower = (texts: readonly string[]) => texts.map((text) => text.normalize("NFC").toLowerCase());

export function placed(files: readonly Picked[], dependencies: readonly Dependency[], entry: string): Placing {
  const isWhole = files.some(({ path }) => path === entry); // it is the scene's own folder once more
  const wants = dependencies.filter((each) => isLacking(each) && !isAbove(each)).map(wantOf);
  const found: Placing = { places: new Map(), answered: new Set(), others: 0 };
  for (const { path, given } of files) {
    const best = bestOf(wants, given);
    for (const { dependency } of best) found.answered.add(dependency);
    if (best.length === 0) found.others += 1;
    const itself = isWhole ? path : nameOf(given) === nameOf(entry) ? entry : given;
    found.places.set(path, best.length === 0 ? [{ path: itself }] : best.map(({ place }) => place(nameOf(given))));
  }
  return found;
}

/** Those that look for this name; of several, those with which most of the folders agree. */
function bestOf(wants: readonly Want[], given: string): Want[] {
  const folder = lower(parts(given)).slice(0, -1);
  const named = wants
    .filter(({ matches }) => matches(nameOf(given)))
    .map((want) => ({ want, alike: alike(want.folder, folder) }));
  const most = Math.max(0, ...named.map((each) => each.alike));
  return named.filter((each) => each.alike === most).map(({ want }) => want);
}

/** How many folders agree, from the file upwards. */
function alike(ours: readonly string[], theirs: readonly string[]): number {
  let count = 0;
  while (count < ours.length && count < theirs.length && ours.at(-1 - count) === theirs.at(-1 - count)) count += 1;
  return count;
}

function wantOf(dependency: Dependency): Want {
  const looked = dependency.state === "outside" ? dependency.path : (dependency.missing[0] ?? dependency.path);
  const all = parts(looked);
  const name = all.at(-1) ?? "";
  const folder = looked.slice(0, looked.length - name.length);
  const isNumbered = dependency.numbers !== null;
  const names = new Set(lower(dependency.missing.map((path) => parts(path).at(-1) ?? "")));
  const pattern = isNumbered ? numbered(name) : undefined;
  return {
    dependency,
    folder: lower(all.slice(0, -1)),
    matches: (given) => {
      const [same = ""] = lower([given]);
      return names.has(same) || same === lower([name])[0] || (pattern?.test(given) ?? false);
    },
    place: (given) => {
      if (dependency.state !== "outside") return { path: `${folder.replace(/^\/+/, "")}${isNumbered ? given : name}` };
      const inside = lower(all.slice(0, -1)).map((each) => each.replace(/[^\p{L}\p{N}._-]/gu, "_"));
      return { path: [OUTSIDE, ...inside, given].join("/"), source: `${folder}${isNumbered ? given : name}` };
    },
  };
}

/** Names like this one with another number: a sequence's frames, a tile set's tiles. */
function numbered(name: string): RegExp {
  const quoted = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const token = /<UDIM>|<UVTILE>/.exec(name);
  if (token) {
    const [head = "", tail = ""] = name.split(token[0]);
    const number = token[0] === "<UDIM>" ? "1\\d{3}" : "u\\d+_v\\d+";
    return new RegExp(`^${quoted(head)}${number}${quoted(tail)}$`, "i");
  }
  const digits = /(\d+)(?=\D*$)/.exec(name.replace(/\.[^.]*$/, ""));
  if (!digits) return /(?!)/;
  const head = name.slice(0, digits.index);
  return new RegExp(`^${quoted(head)}\\d+${quoted(name.slice(digits.index + digits[0].length))}$`, "i");
}
