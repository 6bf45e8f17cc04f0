/** Sentences that need more than a word list: several names, and what the farm says by code. */
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { number } from "@/app/format";

const NAMED = 3;

/** Look a sentence up whose key comes from the farm: undefined where there is none. */
export function useLookup(room: "scenes" | "newJob"): (key: string, params?: object) => string | undefined {
  const { t, i18n } = useTranslation(room);
  const say = t as unknown as (key: string, params: object) => string;
  return (key, params = {}) => (i18n.exists(key, { ns: room }) ? say(key, params) : undefined);
}

/** Name a few of many. */
export function useNamed(): (names: readonly string[]) => string {
  const { t, i18n } = useTranslation("scenes");
  return (names) => {
    const list = new Intl.ListFormat(i18n.language, { style: "short", type: "unit" }).format(names.slice(0, NAMED));
    return names.length > NAMED ? t("several", { names: list, more: number(names.length - NAMED) }) : list;
  };
}

/** What a report's problem says: the portal's own words for a code it knows, else the farm's. */
export function useProblem(): (problem: Pick<Schema["ReportProblem"], "code" | "params" | "sentence">) => string {
  const lookup = useLookup("scenes");
  const named = useNamed();
  return ({ code, params, sentence }) =>
    lookup(`problems.${code}`, { ...params, named: named(namesIn(params)) }) ?? sentence;
}

/** The names of files, data or scripts that a problem is about. */
function namesIn(params: Record<string, unknown>): string[] {
  return ["paths", "names", "texts", "blocked"].flatMap((name) => params[name] ?? []).map(String);
}
