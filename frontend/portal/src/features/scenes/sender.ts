/**
 * Sends the contents of one version that the farm lacks.
 *
 * The farm remembers finished parts, whichever version asked for them, so that going on sends at most the parts that
 * were under way. Addresses are asked for in batches, as the work gets to them. A network that is away is waited for.
 */
import { Refusal } from "@/api/refusal";
import { partLength, partOf, type Sums, sumsOf } from "./digest";
import { batchesOf, bytesOf, type Content, GRANT_VALID_MS, isMuch, type Part, partsLeft } from "./plan";

const UNDER_WAY = 5; // parts at once: a browser has six connections to a host
const TRIES = 8; // of what the store or the farm refuses for the moment
const ROUNDS = 3; // of what was sent and is not there
const NEW_ADDRESS = new Set([403, 404, 409, 410]); // an address that expired, or whose upload has ended
const PASSING = new Set([0, 400, 408, 422, 425, 429, 500, 502, 503, 504]); // 400, 422: the line garbled it

export interface Grant {
  digest: string;
  number: number;
  request: { method: string; url: string; headers: Record<string, string> } | null;
}
export interface Confirmed {
  digest: string;
  answer: "there" | "incomplete" | "mismatch";
  missing: number[];
  why: string;
}

/** What the farm and its store are asked. Errors that are no `Refusal` mean that nobody answered. */
export interface Wire {
  finished(digest: string): Promise<{ there: boolean; parts: { number: number; sha256: string }[] }>;
  sign(parts: { digest: string; number: number; sha256: string }[]): Promise<Grant[]>;
  /** Send one part; gives the status, 0 if nobody answered. */
  put(request: NonNullable<Grant["request"]>, content: Blob, onBytes: (sent: number) => void): Promise<number>;
  confirm(digests: string[]): Promise<{ isWhole: boolean; blobs: Confirmed[] }>;
}

export interface Sent {
  files: number;
  filesDone: number;
  bytes: number;
  bytesDone: number;
  isOffline: boolean;
}

/** Waits before another try: longer each time, and not at all once the network is back or the person stops it. */
export type Patience = (attempt: number, signal: AbortSignal) => Promise<void>;

/** The person paused it. */
export class Paused extends Error {}

/** A file is not any more as it was when it was read. */
export class FileChanged extends Error {
  constructor(readonly path: string) {
    super(`${path} changed while it was being sent.`);
  }
}

/** The store does not keep what is sent. */
export class NotKept extends Error {
  constructor(
    readonly path: string,
    readonly count: number,
    readonly why: string,
  ) {
    super(`The farm did not keep ${count} files, ${path} among them. ${why}`);
  }
}

interface Granted {
  part: Part;
  grant: Grant | undefined;
  at: number;
}

export class Sender {
  private readonly left = new Map<string, number>(); // parts of each content that are not there yet
  private readonly toConfirm: string[] = [];
  private readonly underWay = new Map<string, number>(); // bytes of parts that are being sent
  private again: Part[] = [];
  private why = "";
  private sent: Sent;

  constructor(
    private readonly wire: Wire,
    private readonly contents: ReadonlyMap<string, Content>,
    private readonly missing: readonly string[],
    private readonly tell: (sent: Sent) => void,
    private readonly signal: AbortSignal,
    private readonly wait: Patience,
    private readonly now: () => number = () => performance.now(),
  ) {
    const bytes = missing.reduce((all, digest) => all + this.size(digest), 0);
    this.sent = { files: missing.length, filesDone: 0, bytes, bytesDone: 0, isOffline: false };
  }

  /** Send, confirm, and send again what the farm says it lacks after all. */
  async run(): Promise<void> {
    this.note({});
    await this.sendAll(this.partsOf(this.missing));
    for (let round = 1; this.again.length > 0; round += 1) {
      if (round === ROUNDS) this.giveUp();
      const parts = this.again;
      this.again = [];
      await this.sendAll(each(parts));
    }
    if (this.missing.length === 0) return;
    const { isWhole } = await this.ask(() => this.wire.confirm([]));
    if (!isWhole) this.giveUp();
  }

  // --- what to send

  private content(digest: string): Content {
    const found = this.contents.get(digest);
    if (!found) throw new Error(`${digest} is no file of this upload`);
    return found;
  }

  private size(digest: string): number {
    return this.content(digest).sums.size;
  }

  /** Give the parts to send, without those that an earlier upload has left there. */
  private async *partsOf(digests: readonly string[]): AsyncGenerator<Part> {
    for (const digest of digests) {
      const { sums } = this.content(digest);
      const parts = sums.parts.length > 1 ? await this.unfinished(digest, sums) : partsLeft(sums, []);
      const there = sums.size - bytesOf(parts, () => sums.size);
      if (there > 0) this.note({ bytesDone: this.sent.bytesDone + there });
      this.left.set(digest, parts.length);
      if (parts.length === 0) this.toConfirm.push(digest);
      yield* parts;
    }
  }

  private async unfinished(digest: string, sums: Sums): Promise<Part[]> {
    const { there, parts } = await this.ask(() => this.wire.finished(digest));
    return there ? [] : partsLeft(sums, parts);
  }

  // --- sending

  private async sendAll(parts: AsyncIterable<Part>): Promise<void> {
    for await (const batch of inBatches(parts, (digest) => this.size(digest))) {
      const queue = await this.granted(batch);
      const workers = Array.from({ length: UNDER_WAY }, async () => {
        for (let next = queue.shift(); next; next = queue.shift()) {
          await this.send(next);
          this.count(next.part);
        }
      });
      await firstFailure(workers, () => queue.splice(0));
      if (isMuch(this.toConfirm, (digest) => this.size(digest))) await this.confirm();
    }
    await this.confirm();
  }

  private async granted(parts: readonly Part[]): Promise<Granted[]> {
    const wishes = parts.map(({ digest, number }) => ({
      digest,
      number,
      sha256: this.content(digest).sums.parts[number] ?? "",
    }));
    const grants = await this.ask(() => this.wire.sign(wishes));
    return parts.map((part, nth) => ({ part, grant: grants[nth], at: this.now() }));
  }

  private async renewed(part: Part): Promise<Granted> {
    const [granted] = await this.granted([part]);
    if (!granted) throw new Error("a part without an address");
    return granted;
  }

  private async send(first: Granted): Promise<void> {
    let { part, grant, at } = first;
    const { file, path, sums } = this.content(part.digest);
    const content = partOf(file, part.number);
    const name = `${part.digest} ${part.number}`;
    let refused = 0;
    for (let attempt = 0; ; attempt += 1) {
      this.stopIfPaused();
      if (this.now() - at > GRANT_VALID_MS) ({ grant, at } = await this.renewed(part));
      const request = grant?.request;
      if (!request) break; // it is there already
      const status = await this.wire.put(request, content, (sent) => this.noteUnderWay(name, sent));
      if (status >= 200 && status < 300) break;
      this.noteUnderWay(name, 0);
      this.stopIfPaused();
      if (!(await isReadable(content))) throw new FileChanged(path);
      if (status !== 0) refused += 1;
      if (refused >= TRIES || !(PASSING.has(status) || NEW_ADDRESS.has(status)))
        throw new Refusal({ status, code: "store-refused", params: { path, status } });
      this.note({ isOffline: status === 0 });
      if (NEW_ADDRESS.has(status)) ({ grant, at } = await this.renewed(part));
      if (attempt > 0 || !NEW_ADDRESS.has(status)) await this.wait(attempt, this.signal);
    }
    this.underWay.delete(name);
    this.note({ bytesDone: this.sent.bytesDone + partLength(sums.size, part.number), isOffline: false });
  }

  private count({ digest }: Part): void {
    const rest = (this.left.get(digest) ?? 1) - 1;
    this.left.set(digest, rest);
    if (rest === 0) this.toConfirm.push(digest);
  }

  // --- confirming

  private async confirm(): Promise<void> {
    while (this.toConfirm.length > 0) {
      const digests = this.toConfirm.splice(0, 500);
      const { blobs } = await this.ask(() => this.wire.confirm(digests));
      this.note({ filesDone: this.sent.filesDone + digests.length });
      for (const blob of blobs) if (blob.answer !== "there") await this.sendAgain(blob);
    }
  }

  private async sendAgain({ digest, answer, missing, why }: Confirmed): Promise<void> {
    const { sums, file, path } = this.content(digest);
    if (answer === "mismatch" && !(await isSame(file, sums))) throw new FileChanged(path);
    const numbers = answer === "incomplete" ? missing : sums.parts.map((_, number) => number);
    const parts = numbers.map((number) => ({ digest, number }));
    this.why = why;
    this.left.set(digest, parts.length);
    this.again.push(...parts);
    const bytes = bytesOf(parts, () => sums.size);
    this.note({ filesDone: this.sent.filesDone - 1, bytesDone: this.sent.bytesDone - bytes });
  }

  private giveUp(): never {
    const digests = [...new Set(this.again.map(({ digest }) => digest))];
    throw new NotKept(this.content(digests[0] ?? this.missing[0] ?? "").path, digests.length || 1, this.why);
  }

  // --- asking, and telling

  /** Ask until there is an answer: a network that is away is waited for, a refusal is final. */
  private async ask<T>(question: () => Promise<T>): Promise<T> {
    return await asking(question, this.signal, this.wait, (isOffline) => this.note({ isOffline }));
  }

  private stopIfPaused(): void {
    if (this.signal.aborted) throw new Paused();
  }

  private noteUnderWay(name: string, bytes: number): void {
    this.underWay.set(name, bytes);
    this.note(bytes > 0 ? { isOffline: false } : {});
  }

  private note(change: Partial<Sent>): void {
    this.sent = { ...this.sent, ...change };
    const sending = [...this.underWay.values()].reduce((all, bytes) => all + bytes, 0);
    this.tell({ ...this.sent, bytesDone: Math.min(this.sent.bytes, this.sent.bytesDone + sending) });
  }
}

/** Ask until there is an answer: nobody there is waited for, a refusal that passes is asked again a few times. */
export async function asking<T>(
  question: () => Promise<T>,
  signal: AbortSignal,
  wait: Patience,
  tell: (isOffline: boolean) => void = () => {},
): Promise<T> {
  let refused = 0;
  for (let attempt = 0; ; attempt += 1) {
    if (signal.aborted) throw new Paused();
    try {
      const answer = await question();
      tell(false);
      return answer;
    } catch (error) {
      if (error instanceof Refusal) refused += 1;
      if (error instanceof Refusal && (error.status < 500 || refused >= TRIES) && error.status !== 429) throw error;
      if (!(error instanceof Refusal) && !(error instanceof TypeError)) throw error; // a mistake of ours
      tell(!(error instanceof Refusal));
      await wait(attempt, signal);
    }
  }
}

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

/** Put parts into batches as they come. */
async function* inBatches(parts: AsyncIterable<Part>, size: (digest: string) => number): AsyncGenerator<Part[]> {
  let waiting: Part[] = [];
  for await (const part of parts) {
    waiting.push(part);
    const [full, begun] = batchesOf(waiting, size);
    if (!full || !begun) continue;
    yield full;
    waiting = begun;
  }
  yield* batchesOf(waiting, size);
}

/** Wait for all; at the first failure begin nothing more, let what runs end, and throw it. */
async function firstFailure(workers: readonly Promise<void>[], stop: () => void): Promise<void> {
  const ended = await Promise.allSettled(
    workers.map((worker) =>
      worker.catch((error) => {
        stop();
        throw error;
      }),
    ),
  );
  const failed = ended.find((end) => end.status === "rejected");
  if (failed) throw failed.reason;
}

/** Whether a file can still be read as it was chosen: a browser refuses one that was written to since. */
async function isReadable(content: Blob): Promise<boolean> {
  try {
    await content.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

async function isSame(file: Blob, sums: Sums): Promise<boolean> {
  try {
    return (await sumsOf(file)).digest === sums.digest;
  } catch {
    return false;
  }
}
