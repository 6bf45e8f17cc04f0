/** What the farm says of an order while it is being filled in: what it comes to, what it may cost, what is wrong. */
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { farm, type Schema } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { type Order, pricedPart } from "./order";

const AFTER_MS = 400; // of stillness
const STALE_MS = 30_000;

export interface Checked {
  check: Schema["Check"] | undefined;
  estimate: Schema["Estimate"] | undefined;
  refusal: Refusal | undefined;
  /** What is shown is of an earlier state of the form. */
  isBehind: boolean;
  error: unknown;
}

export function useChecked(order: Order, isComplete: boolean): Checked {
  const text = JSON.stringify(order);
  const [settled] = useDebouncedValue(isComplete ? text : "", AFTER_MS);
  const asked = settled ? (JSON.parse(settled) as Order) : order;
  const priced = pricedPart(asked);
  const options = {
    enabled: isComplete && settled !== "",
    retry: (failures: number, error: unknown) => !(error instanceof Refusal) && failures < 3,
    staleTime: STALE_MS,
    placeholderData: keepPreviousData,
  };
  const check = useQuery({
    ...options,
    queryKey: ["jobs/check", settled],
    queryFn: async ({ signal }) => (await farm.POST("/api/v1/jobs/check", { body: asked, signal })).data ?? null,
  });
  const estimate = useQuery({
    ...options,
    queryKey: ["estimates", JSON.stringify(priced)],
    queryFn: async ({ signal }) => (await farm.POST("/api/v1/estimates", { body: priced, signal })).data ?? null,
  });
  const error = check.error ?? undefined;
  const refusal = error instanceof Refusal ? (error as Refusal) : undefined;
  return {
    check: error ? undefined : (check.data ?? undefined),
    estimate: estimate.error ? undefined : (estimate.data ?? undefined),
    refusal,
    isBehind: text !== settled || check.isFetching,
    error,
  };
}
