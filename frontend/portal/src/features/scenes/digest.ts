/** The farm's rule for digests: one part's own SHA-256, or the SHA-256 of the sums of several 16 MiB parts. */
export const PART_SIZE = 16 * 1024 * 1024;

export interface Sums {
  size: number;
  parts: string[];
  digest: string;
}

const hex = (sum: ArrayBuffer) =>
  Array.from(new Uint8Array(sum), (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

async function sha256(content: BufferSource): Promise<string> {
  return hex(await crypto.subtle.digest("SHA-256", content));
}

export function partCount(size: number): number {
  return Math.max(1, Math.ceil(size / PART_SIZE));
}

export function partOf(file: Blob, number: number): Blob {
  return file.slice(number * PART_SIZE, Math.min(file.size, (number + 1) * PART_SIZE));
}

/** Read a file part by part, never whole; `onBytes` hears how much was read. */
export async function sumsOf(file: Blob, onBytes: (count: number) => void = () => {}): Promise<Sums> {
  const parts: string[] = [];
  for (let number = 0; number < partCount(file.size); number += 1) {
    const content = await partOf(file, number).arrayBuffer();
    parts.push(await sha256(content));
    onBytes(content.byteLength);
  }
  const joined = new Uint8Array(parts.length * 32);
  parts.forEach((part, number) => {
    joined.set(unhex(part), number * 32);
  });
  return { size: file.size, parts, digest: parts.length === 1 ? (parts[0] ?? "") : await sha256(joined) };
}
