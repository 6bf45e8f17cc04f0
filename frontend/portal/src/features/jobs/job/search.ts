/** What of the job page stands in its address: the tab, and the chosen cells of one step. */
export const TABS = ["frames", "movie", "cost"] as const;
export type Tab = (typeof TABS)[number];

export interface JobSearch {
  tab?: Tab;
  step?: number;
  from?: number;
  to?: number;
}

const whole = (value: unknown) =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : undefined;

export function readJobSearch(search: Record<string, unknown>): JobSearch {
  const tab = TABS.find((each) => each === search.tab);
  const [step, from, to] = [whole(search.step), whole(search.from), whole(search.to)];
  return {
    ...(tab ? { tab } : {}),
    ...(step !== undefined ? { step } : {}),
    ...(from !== undefined ? { from } : {}),
    ...(to !== undefined ? { to } : {}),
  };
}
