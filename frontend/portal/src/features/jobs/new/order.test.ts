import { describe, expect, it } from "vitest";
import { Refusal } from "@/api/refusal";
import {
  blankDraft,
  byField,
  clockAt,
  type Draft,
  hoursFrom,
  momentOf,
  orderOf,
  pricedPart,
  splitTag,
  tagsOf,
} from "./order";

const about = { project: "p", version: "v", renderer: "blender", zone: "Europe/Berlin" };
const order = (change: Partial<Draft> = {}) => orderOf({ ...blankDraft("Barn"), ...change }, about);

describe("orderOf", () => {
  it("leaves to the scene and the farm what a person leaves open", () => {
    expect(order()).toEqual({
      project: "p",
      scene_version: "v",
      renderer: "blender",
      name: "Barn",
      parameters: {},
      priority: 50,
      deadline: null,
      budget_micro: null,
      sequence: "",
      shot: "",
      tags: {},
      scouts: "auto",
      fleet: "",
      accept_newer_renderer: false,
      allow_missing_files: false,
    });
  });

  it("writes money in millionths, without a rounding's remains", () => {
    expect([0, 0.1, 19.99].map((budget) => order({ budget }).budget_micro)).toEqual([0, 100_000, 19_990_000]);
  });

  it("takes a deadline for the person's own wall clock", () => {
    expect(order({ deadline: "2026-12-01 18:00:00" }).deadline).toBe("2026-12-01T17:00:00.000Z");
  });

  it.each([
    [{ scouts: "none" }, "none"],
    [{ scouts: "auto", scoutFrames: "4" }, "auto"],
    [{ scouts: "list", scoutFrames: " 1, 12 ,24, " }, "1,12,24"],
    [{ scouts: "list", scoutFrames: "" }, "auto"],
  ] as const)("of %o sends scouts %s", (change, scouts) => {
    expect(order(change).scouts).toBe(scouts);
  });
});

describe("pricedPart", () => {
  it("does not change with what no price depends on", () => {
    const one = pricedPart(order());

    expect(pricedPart(order({ budget: 5, priority: 80, fleet: "spot", shot: "sh1", scouts: "none" }))).toEqual(one);
    expect(pricedPart(order({ parameters: { Frames: "1-3" } }))).not.toEqual(one);
  });
});

describe("momentOf", () => {
  it.each([
    ["2026-07-01 09:00:00", "America/New_York", "2026-07-01T13:00:00.000Z"],
    ["2026-12-01 09:00:00", "America/New_York", "2026-12-01T14:00:00.000Z"],
    ["2026-12-01 09:00:00", "Asia/Shanghai", "2026-12-01T01:00:00.000Z"],
  ])("of %s in %s is %s", (text, zone, moment) => {
    expect(momentOf(text, zone)).toBe(moment);
  });
});

describe("hoursFrom and clockAt", () => {
  const now = new Date("2026-12-01T22:40:00Z");

  it("speak of the person's own days", () => {
    expect(hoursFrom(now, 2, "Asia/Shanghai")).toBe("2026-12-02 08:00:00");
    expect(clockAt(now, 1, 9, "Asia/Shanghai")).toBe("2026-12-03 09:00:00");
    expect(clockAt(now, 0, 23, "UTC")).toBe("2026-12-01 23:00:00");
  });
});

describe("tagsOf", () => {
  it("takes what has a name and a value; the value may have an equals sign", () => {
    expect(tagsOf(["client=ACME", " take = 3 ", "loose", "=x", "url=a=b"])).toEqual({
      client: "ACME",
      take: "3",
      url: "a=b",
    });
    expect(splitTag("loose")).toEqual(["loose", ""]);
  });
});

describe("byField", () => {
  const fields = new Set(["parameters.Frames", "budget_micro", "tags"]);
  const refusal = (...names: (string | null)[]) =>
    new Refusal({
      status: 422,
      code: "several",
      errors: names.map((field) => ({ field, code: `about-${field}`, detail: "Why.", params: {} })),
    });

  it("puts what is refused beside what it is about", () => {
    const { beside, rest } = byField(refusal("parameters.Frames", "tags.client", "scene_version", null), fields);

    expect([...beside].map(([field, { code }]) => [field, code])).toEqual([
      ["parameters.Frames", "about-parameters.Frames"],
      ["tags", "about-tags.client"],
    ]);
    expect(rest.map(({ code }) => code)).toEqual(["about-scene_version", "about-null"]);
  });

  it("takes what is said of all parameters to be about the frames", () => {
    expect(byField(refusal("parameters"), fields).beside.has("parameters.Frames")).toBe(true);
  });

  it("says what is about nothing on the form by itself", () => {
    const { beside, rest } = byField(new Refusal({ status: 409, code: "no-fleet", detail: "None." }), fields);

    expect(beside.size).toBe(0);
    expect(rest).toEqual([{ code: "no-fleet", params: {}, detail: "None." }]);
  });
});
