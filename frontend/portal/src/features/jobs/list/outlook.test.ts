import { describe, expect, it } from "vitest";
import { expectedMicro, lateSeconds } from "./outlook";
import type { Job, Row } from "./useJobs";

const NOW = Date.parse("2026-12-01T12:00:00Z");
const usd = (micro: number) => ({ micro, currency: "USD", amount: "" });
const counts = (done: number, left: number) => ({
  pending: 0,
  ready: left,
  leased: 0,
  succeeded: done,
  failed: 0,
  cancelled: 0,
});
const quote = (p10: number, p90: number, tasks: number) =>
  ({ p10_micro: p10, p90_micro: p90, tasks }) as NonNullable<Row["forecast"]>["quotes"][number];
const row = (job: Partial<Job>, quotes: ReturnType<typeof quote>[] = [], eta: number | null = null): Row => ({
  job: { state: "rendering", deadline: null, tasks: counts(0, 10), ...job } as Job,
  forecast: { job: "j", slots: 1, eta_s: eta, quotes },
  cost: { cost_object: "c", charged: usd(1_000_000), held: usd(0), cap: null },
});

describe("expectedMicro", () => {
  it("adds what is charged to the quote's share of the tasks that remain", () => {
    const half = row({ tasks: counts(5, 5) }, [quote(2_000_000, 4_000_000, 10)]);

    expect(expectedMicro(half)).toEqual({ low: 2_000_000, high: 3_000_000 });
  });

  it("spans the quotes of all kinds of machines", () => {
    const two = row({}, [quote(2_000_000, 4_000_000, 10), quote(1_000_000, 3_000_000, 10)]);

    expect(expectedMicro(two)).toEqual({ low: 2_000_000, high: 5_000_000 });
  });

  it.each([
    ["nothing remains", row({ tasks: counts(10, 0) }, [quote(1, 2, 10)])],
    ["nobody quoted", row({})],
    ["the person may not read money", { ...row({}, [quote(1, 2, 10)]), cost: undefined }],
  ])("is nothing where %s", (_, of) => {
    expect(expectedMicro(of)).toBeNull();
  });
});

describe("lateSeconds", () => {
  const inOneHour = new Date(NOW + 3_600_000).toISOString();

  it.each([
    ["is missed by what is left after it", row({ deadline: inOneHour }, [], 5_400), 1_800],
    ["is kept where less is left", row({ deadline: inOneHour }, [], 600), 0],
    ["is kept as long as nobody knows", row({ deadline: inOneHour }), 0],
    ["is over for what is done", row({ deadline: new Date(0).toISOString(), state: "succeeded" }), 0],
    ["is missed by what has passed", row({ deadline: new Date(NOW - 60_000).toISOString(), state: "failed" }), 60],
    ["is not there", row({}, [], 5_400), 0],
  ])("a deadline %s", (_, of, late) => {
    expect(lateSeconds(of, NOW)).toBe(late);
  });
});
