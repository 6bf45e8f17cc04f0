/** Who is signed in. */
import { api, type Schema } from "@/api/client";

export type Me = Schema["Me"];

export function useMe(): Me | undefined {
  return api.useQuery("get", "/api/v1/me", {}, { staleTime: 60_000, retry: false }).data;
}

/** Whether the person's role lets them do it: what they may not do is not offered. */
export function useMay(scope: string): boolean {
  return useMe()?.scopes.includes(scope) ?? false;
}
