/** What the farm refuses, in the reader's language: the portal's words for a code it knows, else the farm's own. */
import { number } from "@/app/format";
import { useLookup, useProblem } from "@/features/scenes/words";
import type { Told } from "./order";
import type { Complaint } from "./ranges";

export function useTold(): (told: Told) => string {
  const lookup = useLookup("newJob");
  const problem = useProblem();
  return ({ code, params, detail }) => {
    if (code === "scene-problem")
      return problem({ code: String(params.problem), params, sentence: String(params.sentence ?? detail) });
    const shown = Object.entries(params).map(([name, value]) => [
      name,
      typeof value === "number" ? number(value) : value,
    ]);
    return lookup(`refusals.${code}`, Object.fromEntries(shown)) ?? detail;
  };
}

export function useComplaint(): (complaint: Complaint) => string {
  const lookup = useLookup("newJob");
  return (complaint) => lookup(`range.${complaint.code}`, complaint) ?? complaint.code;
}
