/** The farm's rule for digests: one part's own SHA-256, or the SHA-256 of the sums of several 16 MiB parts. */
export const PART_SIZE = 16 * 1024 * 1024;

export interface Sums {
  size: number;
  parts: string[];
  digest: string;
}

export const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const unhex = (text: string) =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)) as Uint8Array<ArrayBuffer>;

/** Whether this page may compute digests at all: browsers allow it on https and on this machine only. */
export const canDigest = () => globalThis.isSecureContext !== false && Boolean(globalThis.crypto?.subtle);

export async function sha256(content: BufferSource): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", content)));
}

export function partCount(size: number): number {
  return Math.max(1, Math.ceil(size / PART_SIZE));
}

export function partLength(size: number, number: number): number {
  return Math.min(PART_SIZE, size - number * PART_SIZE);
}

export function partOf(file: Blob, number: number): Blob {
  return file.slice(number * PART_SIZE, Math.min(file.size, (number + 1) * PART_SIZE));
}

export async function digestOfParts(parts: readonly string[]): Promise<string> {
  if (parts.length === 1) return parts[0] ?? "";
  const joined = new Uint8Array(parts.length * 32);
  parts.forEach((part, number) => {
    joined.set(unhex(part), number * 32);
  });
  return await sha256(joined);
}

/** Read a file part by part, never whole; `onBytes` hears how much was read. */
export async function sumsOf(file: Blob, onBytes: (count: number) => void = () => {}): Promise<Sums> {
  const parts: string[] = [];
  for (let number = 0; number < partCount(file.size); number += 1) {
    const content = await partOf(file, number).arrayBuffer();
    parts.push(await sha256(content));
    onBytes(content.byteLength);
  }
  return { size: file.size, parts, digest: await digestOfParts(parts) };
}
