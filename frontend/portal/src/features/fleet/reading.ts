/** What the farm says of its machines, asked again every few seconds. */
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { answered, api, farm, type Schema } from "@/api/client";

export type Fleet = Schema["Fleet"];
export type Worker = Schema["Worker"];
export type Kind = Schema["DecisionKindEnum"];

export const POLL_MS = 4_000;
const PAGE = 50;
const PRESENT = "requested,booting,ready,draining";

export function useFleets() {
  return api.useQuery("get", "/api/v1/fleets", { params: { query: { limit: 200 } } }, { refetchInterval: POLL_MS });
}

export function useWorkers({ withGone, fleet }: { withGone: boolean; fleet: string | undefined }) {
  return useInfiniteQuery({
    queryKey: ["workers", withGone, fleet],
    queryFn: async ({ pageParam }) => {
      const query = {
        limit: PAGE,
        ...(withGone ? {} : { status: PRESENT }),
        ...(fleet ? { fleet } : {}),
        ...(pageParam ? { cursor: pageParam } : {}),
      };
      return answered(await farm.GET("/api/v1/workers", { params: { query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
    refetchInterval: POLL_MS,
  });
}

export function useDecisions({ kind, fleet }: { kind: Kind | undefined; fleet: string | undefined }) {
  return useInfiniteQuery({
    queryKey: ["decisions", kind, fleet],
    queryFn: async ({ pageParam }) => {
      const query = {
        limit: PAGE,
        ...(kind ? { kind } : {}),
        ...(fleet ? { fleet } : {}),
        ...(pageParam ? { cursor: pageParam } : {}),
      };
      return answered(await farm.GET("/api/v1/decisions", { params: { query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
    refetchInterval: POLL_MS,
  });
}
