/** What is known of the farm, and how long it counts as known. */
import { QueryClient } from "@tanstack/react-query";
import { Refusal } from "@/api/refusal";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // What the farm refused it refuses again; what did not arrive may arrive.
      retry: (failures, error) => !(error instanceof Refusal && error.status < 500) && failures < 3,
    },
  },
});
