/** Who is signed in. */
import { api, type Schema } from "@/api/client";

export type Me = Schema["Me"];

/** Ask who it is; `useMe` for the answer alone. */
export function useMeQuery() {
  return api.useQuery("get", "/api/v1/me", {}, { staleTime: 60_000 });
}

export function useMe(): Me | undefined {
  return useMeQuery().data;
}

/** Whether the person's role lets them do it: what they may not do is not offered. */
export function useMay(scope: Schema["ScopeEnum"]): boolean {
  return useMe()?.scopes.includes(scope) ?? false;
}
