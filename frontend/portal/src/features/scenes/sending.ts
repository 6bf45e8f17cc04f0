/**
 * The upload of this tab. It lives beside the pages: going to another page and back does not end it.
 *
 * Files are read as soon as they are there, while a person still says what they are; sent once both is done.
 */
import { useSyncExternalStore } from "react";
import { canDigest, type Sums } from "./digest";
import { type Pace, PaceMeter } from "./pace";
import { merged, type Picked, sizeOf, take } from "./picked";
import { actOf, type Line, laidOver, manifestOf, notHere, type Place } from "./plan";
import { type Read, readAll } from "./reader";
import { asking, Paused, Sender, type Sent } from "./sender";
import { beginVersion, filesOf, findScene, patience, wireTo } from "./wire";

/** What the files are for: a scene of their own, or those that a version still lacks. */
export type Purpose = { kind: "new"; scene?: string } | { kind: "again" | "add"; version: string };

/** What to make of the files: a scene by its project and name, or by its id; on what they are laid, and where. */
export interface Destination {
  project?: string;
  name?: string;
  scene?: string;
  entry: string;
  /** The version whose files they are laid over. */
  over?: string;
  places?: ReadonlyMap<string, readonly Place[]>;
}

export type Phase = "empty" | "reading" | "read" | "beginning" | "sending" | "sent";

export interface Sending {
  purpose: Purpose;
  phase: Phase;
  isPaused: boolean;
  isOffline: boolean;
  files: readonly Picked[];
  bytes: number;
  top: string;
  leftOut: number;
  read: Read;
  sent: Sent | undefined;
  pace: Pace;
  destination: Destination | undefined;
  version: { id: string; scene: string } | undefined;
  error: unknown;
}

/** Browsers compute digests on https and on this machine only. */
export class NotSecure extends Error {}

/** Files that the farm lacks are not among those that were chosen. */
export class NotChosen extends Error {
  constructor(readonly paths: readonly string[]) {
    super(`${paths.length} files are not among those chosen: ${paths[0] ?? ""}`);
  }
}

const NO_PACE: Pace = { rate: undefined, seconds: undefined };
const NOTHING: Sending = {
  purpose: { kind: "new" },
  phase: "empty",
  isPaused: false,
  isOffline: false,
  files: [],
  bytes: 0,
  top: "",
  leftOut: 0,
  read: { files: 0, bytes: 0 },
  sent: undefined,
  pace: NO_PACE,
  destination: undefined,
  version: undefined,
  error: undefined,
};
const TOLD_EVERY_MS = 120;

class Uploading {
  private now: Sending = NOTHING;
  private shown: Sending = NOTHING;
  private readonly listeners = new Set<() => void>();
  private readonly sums = new Map<string, Sums>();
  private meter = new PaceMeter();
  private running: AbortController | undefined;
  private toldAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  readonly read = () => this.shown;

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Take files that were dropped or chosen, and begin to read them. */
  take(files: readonly File[], purpose: Purpose, destination?: Destination): void {
    const isMore = JSON.stringify(purpose) === JSON.stringify(this.now.purpose) && this.now.phase !== "sent";
    if (!isMore) this.forget();
    const more = take(files, this.now.files.length > 0 ? this.now.top : undefined);
    for (const { path } of more.files) this.sums.delete(path);
    const all = merged(this.now.files, more.files);
    this.set({
      purpose,
      files: all,
      bytes: sizeOf(all),
      top: this.now.top || more.top,
      leftOut: this.now.leftOut + more.leftOut,
      destination: destination ?? this.now.destination,
    });
    if (all.length > 0) this.goOn();
  }

  /** Say what the files are: they are sent as soon as they are read. */
  send(destination: Destination): void {
    this.set({ destination });
    if (this.now.phase === "read" || this.now.error || this.now.isPaused) this.goOn();
  }

  pause(): void {
    this.running?.abort();
    this.set({ isPaused: true, pace: NO_PACE }, true);
  }

  /** Begin, or go on after a pause or a failure. */
  goOn(): void {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.set({ isPaused: false, error: undefined, isOffline: false });
    void this.run(running.signal).catch((error) => {
      if (this.running !== running || error instanceof Paused) return;
      this.set({ error, pace: NO_PACE }, true);
    });
  }

  forget(): void {
    this.running?.abort();
    this.running = undefined;
    this.sums.clear();
    this.set(NOTHING, true);
  }

  private async run(signal: AbortSignal): Promise<void> {
    if (!canDigest()) throw new NotSecure();
    this.begin("reading");
    const { files } = this.now;
    await readAll(files, this.sums, (read) => this.progress({ read }, read.bytes, signal), signal);
    if (!this.now.destination) return this.set({ phase: "read", pace: NO_PACE }, true);
    await this.sendTo(this.now.destination, files, signal);
  }

  private async sendTo(destination: Destination, files: readonly Picked[], signal: AbortSignal): Promise<void> {
    this.begin("beginning");
    const ask = <T>(question: () => Promise<T>) =>
      asking(question, signal, patience, (isOffline) => this.set({ isOffline }));
    const { lines: picked, contents } = manifestOf(files, this.sums);
    const { over, places, entry } = destination;
    const base = over ? await ask(() => filesOf(over)) : [];
    if (this.now.purpose.kind === "again") expectSome(base, picked);
    const lines = laidOver(base, picked, places);
    const scene = destination.scene ?? (await ask(() => findScene(destination.project ?? "", destination.name ?? "")));
    const act = await actOf(scene, entry, lines);
    const begun = await ask(() => beginVersion(scene, entry, lines, act));
    this.set({ version: { id: begun.version.id, scene } }, true);
    const missing = begun.missing.map(({ digest }) => digest);
    const paths = notHere(missing, lines, contents);
    if (paths.length > 0) throw new NotChosen(paths);
    this.begin("sending");
    const tell = (sent: Sent) => this.progress({ sent, isOffline: sent.isOffline }, sent.bytesDone, signal);
    await new Sender(wireTo(begun.version.id, signal), contents, missing, tell, signal, patience).run();
    this.set({ phase: "sent", pace: NO_PACE, isOffline: false }, true);
  }

  private begin(phase: Phase): void {
    this.meter = new PaceMeter();
    this.set({ phase, pace: NO_PACE }, true);
  }

  private progress(change: Partial<Sending>, bytes: number, signal: AbortSignal): void {
    if (signal.aborted) return;
    const all = change.sent ? change.sent.bytes : this.now.bytes;
    this.meter.note(bytes, performance.now());
    this.set({ ...change, pace: this.meter.read(all - bytes) });
  }

  /** Change what is known; pages hear of it at once, or a few times a second. */
  private set(change: Partial<Sending>, atOnce = false): void {
    this.now = { ...this.now, ...change };
    const due = this.toldAt + TOLD_EVERY_MS - performance.now();
    if (atOnce || due <= 0) this.tell();
    else this.timer ??= setTimeout(() => this.tell(), due);
  }

  private tell(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.toldAt = performance.now();
    this.shown = this.now;
    for (const listener of this.listeners) listener();
  }
}

/** @throws NotChosen none of the version's files is among these: it is another folder */
function expectSome(base: readonly Line[], picked: readonly Line[]): void {
  const here = new Set(picked.map(({ path }) => path));
  if (!base.some(({ path }) => here.has(path))) throw new NotChosen(base.map(({ path }) => path));
}

export const uploading = new Uploading();

export const isBusy = ({ phase, isPaused, error }: Sending) =>
  !isPaused && !error && (phase === "reading" || phase === "beginning" || phase === "sending");

/** Leaving the tab would end it: the browser asks first. */
window.addEventListener("beforeunload", (event) => {
  if (isBusy(uploading.read())) event.preventDefault();
});

export function useSending(): Sending {
  return useSyncExternalStore(uploading.subscribe, uploading.read);
}
