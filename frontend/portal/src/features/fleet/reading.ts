/** What the farm says of its machines, asked again every few seconds. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { answered, api, farm, type Schema } from "@/api/client";
import { PAGED } from "@/app/queries";

export type Fleet = Schema["Fleet"];
export type Worker = Schema["Worker"];
export type Kind = Schema["DecisionKindEnum"];

export const POLL_MS = 4_000;
const PAGE = 50;
const PRESENT = "requested,booting,ready,draining";

export function useFleets() {
  return api.useQuery("get", "/api/v1/fleets", { params: { query: { limit: 200 } } }, { refetchInterval: POLL_MS });
}

/** What each fleet is called, by its id. */
export function useFleetNames(): Map<string, string> {
  return new Map(useFleets().data?.results.map(({ id, name }) => [id, name]));
}

export function useWorkers({ withGone }: { withGone: boolean }) {
  return useInfiniteQuery({
    queryKey: ["workers", withGone],
    queryFn: async ({ pageParam: cursor }) => {
      const query = { limit: PAGE, ...(withGone ? {} : { status: PRESENT }), ...(cursor ? { cursor } : {}) };
      return answered(await farm.GET("/api/v1/workers", { params: { query } }));
    },
    ...PAGED,
    refetchInterval: POLL_MS,
  });
}

export function useDecisions({ kind, fleet }: { kind: Kind | undefined; fleet: string | undefined }) {
  return useInfiniteQuery({
    queryKey: ["decisions", kind, fleet],
    queryFn: async ({ pageParam: cursor }) => {
      const chosen = { ...(kind ? { kind } : {}), ...(fleet ? { fleet } : {}) };
      const query = { limit: PAGE, ...chosen, ...(cursor ? { cursor } : {}) };
      return answered(await farm.GET("/api/v1/decisions", { params: { query } }));
    },
    ...PAGED,
    refetchInterval: POLL_MS,
  });
}
