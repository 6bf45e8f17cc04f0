/** Reads files for their digests, in a worker, or knows them from before. */
import type { Sums } from "./digest";
import { DigestMemory } from "./memory";
import type { Picked } from "./picked";
import { Paused } from "./sender";

const AT_ONCE = 3; // one is read while another is summed up; 16 MiB of memory each

/** A file that the browser may not or cannot read. */
export class FileUnreadable extends Error {
  constructor(readonly path: string) {
    super(`${path} cannot be read.`);
  }
}

export interface Read {
  files: number;
  bytes: number;
}

type Told = { id: number; bytes?: number; sums?: Sums; error?: string };

/**
 * Give the sums of all files by path; `tell` hears how much is done, `known` keeps what was read when it is stopped.
 *
 * @throws FileUnreadable one is gone, or changed since it was chosen
 * @throws Paused the signal says so
 */
export async function readAll(
  files: readonly Picked[],
  known: Map<string, Sums>,
  tell: (read: Read) => void,
  signal: AbortSignal,
): Promise<void> {
  const memory = await DigestMemory.open();
  const toRead = files.filter(({ path }) => !known.has(path));
  for (const [path, sums] of await memory.recall(toRead)) known.set(path, sums);
  const pool = new Pool(signal);
  const read: Read = { files: 0, bytes: 0 };
  for (const { path } of files) {
    const sums = known.get(path);
    if (sums) Object.assign(read, { files: read.files + 1, bytes: read.bytes + sums.size });
  }
  tell({ ...read });
  const queue = files.filter(({ path }) => !known.has(path));
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const sums = await pool.read(next, (bytes) => {
        read.bytes += bytes;
        tell({ ...read });
      });
      known.set(next.path, sums);
      memory.keep(next, sums);
      read.files += 1;
      tell({ ...read });
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    queue.length = 0;
    pool.end();
    memory.close();
  }
}

/** One worker that reads several files at a time. */
class Pool {
  private readonly worker = new Worker(new URL("./hash.worker.ts", import.meta.url), { type: "module" });
  private readonly waiting = new Map<number, (told: Told) => void>();
  private readonly stop = () => {
    for (const tell of this.waiting.values()) tell({ id: 0, error: "stopped" });
  };
  private next = 0;

  constructor(private readonly signal: AbortSignal) {
    this.worker.onmessage = ({ data }: MessageEvent<Told>) => this.waiting.get(data.id)?.(data);
    signal.addEventListener("abort", this.stop);
  }

  read({ path, file }: Picked, onBytes: (count: number) => void): Promise<Sums> {
    const id = this.next;
    this.next += 1;
    return new Promise((resolve, reject) => {
      if (this.signal.aborted) return reject(new Paused());
      this.waiting.set(id, ({ bytes, sums, error }) => {
        if (bytes) onBytes(bytes);
        if (!sums && !error) return;
        this.waiting.delete(id);
        if (sums) resolve(sums);
        else reject(this.signal.aborted ? new Paused() : new FileUnreadable(path));
      });
      this.worker.postMessage({ id, file });
    });
  }

  end(): void {
    this.signal.removeEventListener("abort", this.stop);
    this.worker.terminate();
  }
}
