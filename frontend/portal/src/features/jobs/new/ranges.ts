/** Frame ranges as OpenJD writes them ("1-10,15,20-40:2"): how many frames, and what is wrong. Pure; the farm decides. */

export type Complaint =
  | { code: "empty" | "comma" }
  | { code: "misspelt" | "open" | "stepless" | "zero" | "backwards" | "forwards"; part: string }
  | { code: "overlap"; part: string; other: string };

export interface Frames {
  count: number;
  first: number;
  last: number;
  /** The frame in the middle, as the scouts take it. */
  middle: number;
}

const PART = /^\s*(-?\d+)\s*(?:-\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?)?$/;
const OPEN = /^\s*-?\d+\s*-\s*$/;
const STEPLESS = /^\s*-?\d+\s*-\s*-?\d+\s*:\s*$/;

interface Span {
  first: number;
  count: number;
  by: number;
  part: string;
}

const lastOf = ({ first, count, by }: Span) => first + (count - 1) * by;

/** Read a range; what is wrong with it comes first. */
export function readFrames(text: string): Frames | Complaint {
  if (!text.trim()) return { code: "empty" };
  const spans: Span[] = [];
  for (const part of text.split(",")) {
    const span = readPart(part);
    if ("code" in span) return span;
    spans.push(span);
  }
  return overlapOf(spans) ?? framesOf(spans);
}

export const isComplaint = (read: Frames | Complaint): read is Complaint => "code" in read;

function readPart(text: string): Span | Complaint {
  const part = text.trim();
  if (!part) return { code: "comma" };
  const found = PART.exec(text);
  if (!found) return { code: OPEN.test(text) ? "open" : STEPLESS.test(text) ? "stepless" : "misspelt", part };
  const first = Number(found[1]);
  const last = found[2] === undefined ? first : Number(found[2]);
  const by = found[3] === undefined ? 1 : Number(found[3]);
  if (by === 0) return { code: "zero", part };
  if (last < first && by > 0) return { code: "backwards", part };
  if (last > first && by < 0) return { code: "forwards", part };
  return { first, count: Math.floor((last - first) / by) + 1, by, part };
}

/** Parts whose ends lie within each other: each frame is named once. */
function overlapOf(spans: readonly Span[]): Complaint | undefined {
  const sorted = spans
    .map((span) => ({ span, low: Math.min(span.first, lastOf(span)), high: Math.max(span.first, lastOf(span)) }))
    .sort((a, b) => a.low - b.low);
  const at = sorted.findIndex(
    (each, nth) => nth > 0 && each.low <= (sorted[nth - 1]?.high ?? Number.NEGATIVE_INFINITY),
  );
  const [before, here] = [sorted[at - 1], sorted[at]];
  return before && here ? { code: "overlap", part: before.span.part, other: here.span.part } : undefined;
}

function framesOf(spans: readonly Span[]): Frames {
  const count = spans.reduce((all, span) => all + span.count, 0);
  return {
    count,
    first: frameAt(spans, 0),
    middle: frameAt(spans, Math.floor((count - 1) / 2)),
    last: frameAt(spans, count - 1),
  };
}

function frameAt(spans: readonly Span[], place: number): number {
  let left = place;
  for (const { first, count, by } of spans) {
    if (left < count) return first + left * by;
    left -= count;
  }
  return 0;
}

/** A scene's own range, as text. */
export function rangeOf({ start, end, step }: { start: number; end: number; step: number }): string {
  if (end < start) return "";
  if (start === end) return `${start}`;
  return step > 1 ? `${start}-${end}:${step}` : `${start}-${end}`;
}
