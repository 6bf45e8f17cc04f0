/** How quick a transfer is: bytes of the last seconds, so that a rate says what is now and not what was. Pure. */
const WINDOW_MS = 12_000;
const LEAST_MS = 1_500; // before that a rate would jump

export interface Pace {
  /** Bytes a second; undefined as long as too little is known. */
  rate: number | undefined;
  /** Seconds that `left` bytes take at this rate. */
  seconds: number | undefined;
}

export class PaceMeter {
  private readonly marks: { at: number; bytes: number }[] = [];

  /** Note how many bytes are done; forgets what is too old, and begins anew when the count falls. */
  note(bytes: number, at: number): void {
    const last = this.marks.at(-1);
    if (last && bytes < last.bytes) this.marks.length = 0;
    if (last && at - last.at < 200 && this.marks.length > 1) this.marks.pop();
    this.marks.push({ at, bytes });
    while (this.marks.length > 2 && at - (this.marks[0]?.at ?? at) > WINDOW_MS) this.marks.shift();
  }

  read(left: number): Pace {
    const [first, last] = [this.marks[0], this.marks.at(-1)];
    if (!first || !last || last.at - first.at < LEAST_MS) return { rate: undefined, seconds: undefined };
    const rate = ((last.bytes - first.bytes) * 1000) / (last.at - first.at);
    return { rate, seconds: rate > 0 ? left / rate : undefined };
  }
}
