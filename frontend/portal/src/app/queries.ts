/** What is known of the farm, and how long it counts as known. */
import { keepPreviousData, MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { Refusal } from "@/api/refusal";

const ME = ["get", "/api/v1/me"];

/** A session that ended is noticed by whatever asks first; the frame looks again who is there and leads to the door. */
function noticeTheEnd(error: unknown, asked?: readonly unknown[]): void {
  const isOfMe = asked?.[1] === ME[1];
  if (error instanceof Refusal && error.status === 401 && !isOfMe) void queries.invalidateQueries({ queryKey: ME });
}

/** How the farm's lists are read on and on: each page names the next; the rows before stay until the new ones are there. */
export const PAGED = {
  initialPageParam: "",
  getNextPageParam: (page: { next: string | null }) => page.next,
  placeholderData: keepPreviousData,
} as const;

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => noticeTheEnd(error, query.queryKey) }),
  mutationCache: new MutationCache({ onError: (error) => noticeTheEnd(error) }),
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // What the farm refused it refuses again; what did not arrive may arrive.
      retry: (failures, error) => !(error instanceof Refusal && error.status < 500) && failures < 3,
    },
  },
});
