/** What of the job list stands in its address. */
import type { Schema } from "@/api/client";

export type State = Schema["StateEnum"];
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

export interface JobsSearch {
  state?: State[];
  name?: string;
  sort?: Sort;
}

export function readJobsSearch(search: Record<string, unknown>): JobsSearch {
  const asked = Array.isArray(search.state) ? search.state : [];
  const state = asked.filter((each): each is State => typeof each === "string" && each in STATE_COLOUR);
  const sort = SORTS.find((each) => each === search.sort);
  return {
    ...(state.length ? { state } : {}),
    ...(typeof search.name === "string" && search.name ? { name: search.name } : {}),
    ...(sort ? { sort } : {}),
  };
}
