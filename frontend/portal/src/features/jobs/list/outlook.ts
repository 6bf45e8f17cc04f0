/** What a job will have cost, and whether it comes in time. Pure. */
import type { Row } from "./useJobs";

export interface Range {
  low: number;
  high: number;
}

/** What is charged already and what the quotes say of the tasks that remain; null: nobody has quoted, or it is over. */
export function expectedMicro({ job, forecast, cost }: Row): Range | null {
  const left = job.tasks.pending + job.tasks.ready + job.tasks.leased;
  const quotes = (forecast?.quotes ?? []).filter((quote) => quote.tasks > 0);
  if (!cost || left === 0 || quotes.length === 0) return null;
  const of = (micro: number, tasks: number) => cost.charged.micro + (micro * left) / tasks;
  return {
    low: Math.min(...quotes.map((quote) => of(quote.p10_micro, quote.tasks))),
    high: Math.max(...quotes.map((quote) => of(quote.p90_micro, quote.tasks))),
  };
}

/** By how many seconds the deadline is missed as things go; 0: it is not, or nobody knows. */
export function lateSeconds({ job, forecast }: Row, now: number): number {
  if (!job.deadline || ["succeeded", "cancelled"].includes(job.state)) return 0;
  const over = (now - Date.parse(job.deadline)) / 1000 + (forecast?.eta_s ?? 0);
  return Math.max(0, Math.round(over));
}
