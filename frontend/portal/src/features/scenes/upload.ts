/**
 * Sending a scene: every file is hashed, only contents that the farm lacks travel, and what was cut goes on.
 *
 * The farm remembers finished parts, so that after a reload the same folder, chosen again, sends only what is missing.
 */
import { answered, farm, once, type Schema } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { partCount, partOf, type Sums } from "./digest";
import type { Picked } from "./picked";

const PARTS_AT_ONCE = 200; // asked for in one request
const UNDER_WAY = 5;
const TRIES = 8;
const NEW_ADDRESS = new Set([403, 404, 409, 410]); // an address that expired, or whose upload has ended

export interface Progress {
  stage: "hashing" | "sending" | "done";
  files: number;
  filesDone: number;
  bytes: number;
  bytesDone: number;
  isOffline: boolean;
}

export class Paused extends Error {}

interface Part {
  digest: string;
  number: number;
}

/** Wait, longer each time; at once again when the network is back. */
function patience(attempt: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, Math.min(30_000, 500 * 2 ** attempt) * (0.75 + Math.random() / 2));
    function done() {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    }
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}

export class Upload {
  private readonly sums = new Map<string, Sums>(); // by path
  private readonly content = new Map<string, { file: File; sums: Sums }>(); // by digest
  private progress: Progress = { stage: "hashing", files: 0, filesDone: 0, bytes: 0, bytesDone: 0, isOffline: false };

  constructor(
    private readonly files: readonly Picked[],
    private readonly tell: (progress: Progress) => void,
    private readonly signal: AbortSignal,
  ) {}

  /** Give the sums of all files, each read once. */
  async hash(): Promise<void> {
    const worker = new Worker(new URL("./hash.worker.ts", import.meta.url), { type: "module" });
    this.note({
      stage: "hashing",
      files: this.files.length,
      bytes: this.files.reduce((all, { file }) => all + file.size, 0),
    });
    try {
      for (const [id, { path, file }] of this.files.entries()) {
        this.stopIfPaused();
        const sums = await this.hashOne(worker, id, file);
        this.sums.set(path, sums);
        this.content.set(sums.digest, { file, sums });
        this.note({ filesDone: id + 1 });
      }
    } finally {
      worker.terminate();
    }
  }

  private hashOne(worker: Worker, id: number, file: File): Promise<Sums> {
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<{ id: number; bytes?: number; sums?: Sums; error?: string }>) => {
        if (data.id !== id) return;
        if (data.bytes) this.note({ bytesDone: this.progress.bytesDone + data.bytes });
        if (data.error) reject(new Error(`${file.name}: ${data.error}`));
        if (data.sums) resolve(data.sums);
      };
      worker.postMessage({ id, file });
    });
  }

  /** Begin a version of the scene and send what the farm lacks of it. */
  async send(sceneId: string, entry: string): Promise<Schema["Version"]> {
    const files = this.files.map(({ path }) => {
      const sums = this.sums.get(path);
      if (!sums) throw new Error(`${path} was not read`);
      return { path, digest: sums.digest, size: sums.size };
    });
    const header = once();
    const begun = await this.again(() =>
      farm.POST("/api/v1/scenes/{scene_id}/versions", {
        params: { path: { scene_id: sceneId }, header },
        body: { entry, files },
      }),
    );
    let missing = begun.missing;
    const path = { version_id: begun.version.id };
    const size = (each: { size: number }[]) => each.reduce((all, { size }) => all + size, 0);
    this.note({ stage: "sending", files: missing.length, filesDone: 0, bytes: size(missing), bytesDone: 0 });
    for (let round = 0; round < 3 && missing.length > 0; round += 1) {
      await this.sendParts(path, missing);
      const page = await this.again(() =>
        farm.GET("/api/v1/scene-versions/{version_id}/missing", { params: { path } }),
      );
      missing = page.results;
    }
    if (missing.length > 0) throw new Error(`The store did not keep ${missing.length} files. Send the folder again.`);
    // Confirming nothing makes a version whole whose contents are all there.
    await this.again(() =>
      farm.POST("/api/v1/scene-versions/{version_id}/blobs", { params: { path }, body: { digests: [] } }),
    );
    this.note({ stage: "done" });
    return begun.version;
  }

  private async sendParts(
    path: { version_id: string },
    missing: readonly { digest: string; size: number }[],
  ): Promise<void> {
    const parts = missing.flatMap(({ digest, size }) =>
      Array.from({ length: partCount(size) }, (_, number): Part => ({ digest, number })),
    );
    const left = new Map(missing.map(({ digest, size }) => [digest, partCount(size)]));
    for (let at = 0; at < parts.length; at += PARTS_AT_ONCE) {
      const batch = parts.slice(at, at + PARTS_AT_ONCE);
      const { parts: grants } = await this.sign(path, batch);
      const queue = batch.map((part, nth) => ({ part, grant: grants[nth] }));
      const done: string[] = [];
      await Promise.all(
        Array.from({ length: UNDER_WAY }, async () => {
          for (let next = queue.shift(); next; next = queue.shift()) {
            await this.sendPart(path, next.part, next.grant);
            const rest = (left.get(next.part.digest) ?? 1) - 1;
            left.set(next.part.digest, rest);
            if (rest === 0) {
              done.push(next.part.digest);
              this.note({ filesDone: this.progress.filesDone + 1 });
            }
          }
        }),
      );
      if (done.length > 0) {
        const body = { digests: done };
        await this.again(() => farm.POST("/api/v1/scene-versions/{version_id}/blobs", { params: { path }, body }));
      }
    }
  }

  private sign(path: { version_id: string }, parts: readonly Part[]): Promise<Schema["PartGrants"]> {
    const body = {
      parts: parts.map(({ digest, number }) => ({ digest, number, sha256: this.partSum(digest, number) })),
    };
    return this.again(() => farm.POST("/api/v1/scene-versions/{version_id}/parts", { params: { path }, body }));
  }

  private partSum(digest: string, number: number): string {
    return this.contentOf(digest).sums.parts[number] ?? "";
  }

  private contentOf(digest: string): { file: File; sums: Sums } {
    const found = this.content.get(digest);
    if (!found) throw new Error(`${digest} is no file of this upload`);
    return found;
  }

  private async sendPart(
    path: { version_id: string },
    part: Part,
    first: Schema["PartGrant"] | undefined,
  ): Promise<void> {
    let grant = first;
    const content = partOf(this.contentOf(part.digest).file, part.number);
    for (let attempt = 0; ; attempt += 1) {
      this.stopIfPaused();
      const request = grant?.request;
      if (!request) break; // it is there already
      const status = await fetch(request.url, {
        method: request.method,
        headers: Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
        body: content,
        signal: this.signal,
      }).then(
        (answer) => answer.status,
        () => 0,
      );
      this.note({ isOffline: status === 0 && !this.signal.aborted });
      if (status >= 200 && status < 300) break;
      this.stopIfPaused();
      if (status !== 0 && attempt >= TRIES) throw new Refusal({ status, code: "store-refused" });
      if (NEW_ADDRESS.has(status)) grant = (await this.sign(path, [part])).parts[0];
      else await patience(Math.min(attempt, 6), this.signal);
    }
    this.note({ bytesDone: this.progress.bytesDone + content.size });
  }

  /** Ask until there is an answer: a network that is away is waited for, a refusal is final. */
  private async again<T>(ask: () => Promise<{ data?: T }>): Promise<T> {
    for (let attempt = 0; ; attempt += 1) {
      this.stopIfPaused();
      try {
        const data = answered(await ask());
        this.note({ isOffline: false });
        return data;
      } catch (error) {
        if (error instanceof Refusal && error.status < 500) throw error;
        if (error instanceof Refusal && attempt >= TRIES) throw error;
        this.note({ isOffline: !(error instanceof Refusal) });
        await patience(Math.min(attempt, 6), this.signal);
      }
    }
  }

  private stopIfPaused(): void {
    if (this.signal.aborted) throw new Paused();
  }

  private note(change: Partial<Progress>): void {
    this.progress = { ...this.progress, ...change };
    this.tell(this.progress);
  }
}
