/** What the farm says when it will not do what was asked: a code and its numbers, worded by the portal. */
import type { components } from "./schema";

export type Problem = components["schemas"]["Problem"];

export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly params: Record<string, unknown>;
  readonly fields: Problem["errors"];

  constructor(problem: Partial<Problem> & { status: number }) {
    super(problem.detail ?? `The farm answered ${problem.status}.`);
    this.status = problem.status;
    this.code = problem.code ?? "unknown";
    this.params = problem.params ?? {};
    this.fields = problem.errors ?? [];
  }

  /** Sentences by the field they are about, for a form. */
  byField(): Record<string, string> {
    return Object.fromEntries(this.fields.filter((e) => e.field).map((e) => [e.field ?? "", e.detail]));
  }
}
