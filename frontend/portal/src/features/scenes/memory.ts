/**
 * Remembers the digests of files that were read before, in the browser's own database.
 *
 * A file is known again by its path, size and time of change; one that changed a moment ago might change again and look
 * the same, so it is not remembered. It is only a hint: the farm compares what arrives with what was announced. Where
 * the memory cannot be kept (a private window, a full disk), files are read anew.
 */
import { digestOfParts, hex, PART_SIZE, type Sums, unhex } from "./digest";
import type { Picked } from "./picked";

const NAME = "farmhand";
const STORE = "sums";
const KEPT_MS = 90 * 86_400_000;
const FRESH_MS = 2_000;

interface Row {
  key: string;
  parts: Uint8Array;
  used: number;
}

const keyOf = ({ given, file }: Picked) => `${given}\n${file.size}\n${file.lastModified}`;

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function open(): Promise<IDBDatabase> {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(STORE, { keyPath: "key" }).createIndex("used", "used");
  };
  return await done(request);
}

export class DigestMemory {
  private constructor(private readonly rows: IDBDatabase | undefined) {}

  static async open(): Promise<DigestMemory> {
    try {
      const memory = new DigestMemory(await open());
      memory.forgetOld();
      return memory;
    } catch {
      return new DigestMemory(undefined);
    }
  }

  close(): void {
    this.rows?.close();
  }

  /** Give the sums of those files that look the same as when they were read. */
  async recall(files: readonly Picked[]): Promise<Map<string, Sums>> {
    const known = new Map<string, Sums>();
    if (!this.rows) return known;
    try {
      const store = this.rows.transaction(STORE, "readonly").objectStore(STORE);
      const rows = await Promise.all(files.map((each) => done<Row | undefined>(store.get(keyOf(each)))));
      for (const [nth, row] of rows.entries()) {
        const each = files[nth];
        if (row && each) known.set(each.path, await sumsFrom(row, each.file.size));
      }
    } catch {
      known.clear();
    }
    return known;
  }

  /** Keep a file's sums; nothing waits for it. */
  keep(each: Picked, sums: Sums, now = Date.now()): void {
    if (!this.rows || now - each.file.lastModified < FRESH_MS) return;
    const parts = new Uint8Array(sums.parts.length * 32);
    sums.parts.forEach((part, number) => {
      parts.set(unhex(part), number * 32);
    });
    try {
      const row: Row = { key: keyOf(each), parts, used: now };
      this.rows.transaction(STORE, "readwrite").objectStore(STORE).put(row);
    } catch {
      // a full disk: it is read anew next time
    }
  }

  private forgetOld(): void {
    const store = this.rows?.transaction(STORE, "readwrite").objectStore(STORE);
    const old = store?.index("used").openKeyCursor(IDBKeyRange.upperBound(Date.now() - KEPT_MS));
    if (!old) return;
    old.onsuccess = () => {
      if (!old.result) return;
      store?.delete(old.result.primaryKey);
      old.result.continue();
    };
  }
}

async function sumsFrom(row: Row, size: number): Promise<Sums> {
  const parts = Array.from({ length: row.parts.length / 32 }, (_, at) =>
    hex(row.parts.subarray(at * 32, at * 32 + 32)),
  );
  if (parts.length !== Math.max(1, Math.ceil(size / PART_SIZE))) throw new Error("a damaged row");
  return { size, parts, digest: await digestOfParts(parts) };
}
