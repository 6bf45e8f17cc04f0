import type { Schema } from "@/api/client";

type Counts = Pick<Schema["Counts"], "pending" | "ready" | "leased" | "succeeded" | "failed" | "cancelled">;

export function total(counts: Counts): number {
  return counts.pending + counts.ready + counts.leased + counts.succeeded + counts.failed + counts.cancelled;
}
