/** What of the job list stands in its address. */
import type { Schema } from "@/api/client";

export type State = Schema["JobStateEnum"];
export const SORTS = ["-created", "created", "-priority", "deadline"] as const;
export type Sort = (typeof SORTS)[number];

// A record, so that a new state is a compile error until it has its colour and words.
export const STATE_COLOUR: Record<State, string> = {
  waiting: "gray",
  rendering: "blue",
  suspended: "yellow",
  succeeded: "teal",
  failed: "red",
  cancelled: "dark",
};
export const STATES = Object.keys(STATE_COLOUR) as State[];

const TEXTS = ["project", "artist", "sequence", "shot", "name"] as const;

/** `artist` is a person's id, or "me". */
export interface JobsSearch extends Partial<Record<(typeof TEXTS)[number], string>> {
  state?: State[];
  sort?: Sort;
}

export function readJobsSearch(search: Record<string, unknown>): JobsSearch {
  const asked = Array.isArray(search.state) ? search.state : [];
  const state = STATES.filter((each) => asked.includes(each));
  const sort = SORTS.find((each) => each === search.sort);
  const texts = TEXTS.map((name) => [name, readText(search[name])] as const).filter(([, text]) => text);
  return { ...Object.fromEntries(texts), ...(state.length ? { state } : {}), ...(sort ? { sort } : {}) };
}

/** An address may have been written by hand: shot=010 arrives as a number. */
function readText(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** The question to the farm. */
export function toQuery({ state, ...rest }: JobsSearch) {
  return { ...rest, ...(state ? { state: state.join(",") } : {}) };
}

/** Whether some jobs may be hidden. */
export function isNarrowed({ sort: _, ...filters }: JobsSearch): boolean {
  return Object.keys(filters).length > 0;
}
