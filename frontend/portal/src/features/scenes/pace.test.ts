import { describe, expect, it } from "vitest";
import { PaceMeter } from "./pace";

describe("PaceMeter", () => {
  it("says nothing before a second and a half", () => {
    const meter = new PaceMeter();

    meter.note(0, 0);
    meter.note(1_000, 1_000);

    expect(meter.read(1_000).rate).toBeUndefined();
  });

  it("says bytes a second, and how long the rest takes", () => {
    const meter = new PaceMeter();

    for (let second = 0; second <= 4; second += 1) meter.note(second * 500, second * 1_000);

    expect(meter.read(1_000)).toEqual({ rate: 500, seconds: 2 });
  });

  it("forgets how quick it was long ago", () => {
    const meter = new PaceMeter();

    meter.note(0, 0);
    meter.note(1_000_000, 1_000);
    for (let second = 2; second <= 30; second += 1) meter.note(1_000_000 + second * 10, second * 1_000);

    expect(meter.read(100).rate).toBeCloseTo(10);
  });

  it("knows no end while nothing moves", () => {
    const meter = new PaceMeter();

    meter.note(10, 0);
    meter.note(10, 5_000);

    expect(meter.read(5)).toEqual({ rate: 0, seconds: undefined });
  });

  it("begins anew when something has to be sent again", () => {
    const meter = new PaceMeter();

    meter.note(900, 0);
    meter.note(100, 2_000);
    meter.note(300, 4_000);

    expect(meter.read(100)).toEqual({ rate: 100, seconds: 1 });
  });
});
