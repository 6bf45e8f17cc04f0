/** What travels: a manifest's lines, the contents behind them, their parts, and in which batches. Pure. */
import { partCount, partLength, type Sums, sha256 } from "./digest";
import type { Picked } from "./picked";

export const AT_ONCE = 500; // parts asked for, or digests confirmed, in one request
export const BATCH_BYTES = 256 * 1024 * 1024;
export const CONFIRM_BYTES = 2 * 1024 ** 3;
export const GRANT_VALID_MS = 13 * 60_000; // the farm says 15 minutes; two are left for the sending

export interface Line {
  path: string;
  digest: string;
  size: number;
  source?: string;
}

/** A file that was read, ready to be sent. */
export interface Content {
  file: File;
  path: string;
  sums: Sums;
}

export interface Part {
  digest: string;
  number: number;
}

/** Give the lines of a manifest, in the files' order, and each content once by its digest. */
export function manifestOf(
  files: readonly Picked[],
  sums: ReadonlyMap<string, Sums>,
): { lines: Line[]; contents: Map<string, Content> } {
  const contents = new Map<string, Content>();
  const lines = files.map(({ path, file }) => {
    const found = sums.get(path);
    if (!found) throw new Error(`${path} was not read`);
    if (!contents.has(found.digest)) contents.set(found.digest, { file, path, sums: found });
    return { path, digest: found.digest, size: found.size };
  });
  return { lines, contents };
}

/** Where a picked file is laid out, other than where it was picked from. */
export interface Place {
  path: string;
  /** The path as the scene spells it, where that leads out of its folder. */
  source?: string;
}

/**
 * Lay picked files over the lines of an earlier version: at their own paths, or at the places they were found to be for.
 *
 * A line that is laid over keeps how the scene spells it.
 */
export function laidOver(
  base: readonly Line[],
  picked: readonly Line[],
  places: ReadonlyMap<string, readonly Place[]> = new Map(),
): Line[] {
  const lines = new Map(base.map((line) => [line.path, line]));
  for (const { path, digest, size } of picked)
    for (const place of places.get(path) ?? [{ path }])
      lines.set(place.path, { ...lines.get(place.path), ...place, digest, size });
  return [...lines.values()];
}

/** The paths of those contents that the farm lacks and nobody has here. */
export function notHere(
  missing: readonly string[],
  lines: readonly Line[],
  contents: ReadonlyMap<string, Content>,
): string[] {
  const lacking = new Set(missing.filter((digest) => !contents.has(digest)));
  return lines.filter(({ digest }) => lacking.has(digest)).map(({ path }) => path);
}

/**
 * Name a manifest, so that the farm knows it again.
 *
 * The same files of the same scene, sent again after a reload, are the same act: the farm gives the version it began.
 */
export async function actOf(scene: string, entry: string, lines: readonly Line[]): Promise<string> {
  const said = lines.map(({ path, digest, source }) => [path, digest, source ?? ""].join("\n")).sort();
  const text = JSON.stringify([scene, entry, said]);
  return `manifest-${await sha256(new TextEncoder().encode(text))}`;
}

/** Give a content's parts that are not in the store yet: those it lacks, or has with another sum. */
export function partsLeft(sums: Sums, finished: readonly { number: number; sha256: string }[]): Part[] {
  const there = new Set(finished.filter((part) => part.sha256 === sums.parts[part.number]).map(({ number }) => number));
  return Array.from({ length: partCount(sums.size) }, (_, number) => ({ digest: sums.digest, number })).filter(
    ({ number }) => !there.has(number),
  );
}

/** Put parts into batches that one request asks for, small enough to be sent while their addresses are valid. */
export function* batchesOf(parts: Iterable<Part>, sizeOf: (digest: string) => number): Generator<Part[]> {
  let batch: Part[] = [];
  let bytes = 0;
  for (const part of parts) {
    const length = partLength(sizeOf(part.digest), part.number);
    if (batch.length === AT_ONCE || (batch.length > 0 && bytes + length > BATCH_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(part);
    bytes += length;
  }
  if (batch.length > 0) yield batch;
}

/** Whether so much is waiting to be confirmed that it should be. */
export function isMuch(digests: readonly string[], sizeOf: (digest: string) => number): boolean {
  return digests.length >= AT_ONCE || digests.reduce((all, digest) => all + sizeOf(digest), 0) > CONFIRM_BYTES;
}

/** The bytes of these parts. */
export function bytesOf(parts: readonly Part[], sizeOf: (digest: string) => number): number {
  return parts.reduce((all, { digest, number }) => all + partLength(sizeOf(digest), number), 0);
}
