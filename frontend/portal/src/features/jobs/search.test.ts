import { describe, expect, it } from "vitest";
import { isNarrowed, readJobsSearch, toQuery } from "./search";

describe("readJobsSearch", () => {
  it.each([
    [{}, {}],
    [{ state: ["failed", "eaten"], sort: "name" }, { state: ["failed"] }],
    [{ state: "failed" }, {}],
    [
      { shot: 10, name: "", artist: "me" },
      { shot: "10", artist: "me" },
    ],
    [{ sort: "deadline", tab: "cost" }, { sort: "deadline" }],
  ])("takes of %j what the list knows", (asked, read) => {
    expect(readJobsSearch(asked)).toEqual(read);
  });
});

describe("toQuery", () => {
  it("asks for several states at once", () => {
    expect(toQuery({ state: ["waiting", "failed"], name: "barn" })).toEqual({ state: "waiting,failed", name: "barn" });
  });
});

describe("isNarrowed", () => {
  it("is not said of an order alone", () => {
    expect([isNarrowed({ sort: "created" }), isNarrowed({ name: "barn" })]).toEqual([false, true]);
  });
});
