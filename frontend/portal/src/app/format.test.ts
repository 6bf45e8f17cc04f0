import { describe, expect, it } from "vitest";
import { bytes, duration, durationAbout, money, moneyAbout } from "./format";

describe("duration", () => {
  it.each([
    [4.24, "4.2 sec"],
    [59, "59 sec"],
    [200, "3 min 20 sec"],
    [120, "2 min"],
    [7_500, "2 hr 5 min"],
    [90_000, "1 day 1 hr"],
  ])("of %d s is said as people do", (seconds, said) => {
    expect(duration(seconds, "en")).toBe(said);
  });

  it("is said in Chinese too", () => {
    expect(duration(200, "zh-CN")).toBe("3分钟 20秒");
  });
});

describe("durationAbout", () => {
  it.each([
    [2, "5 sec"],
    [1_184, "20 min"],
    [7_900, "2 hr 10 min"],
    [200_000, "2 days 8 hr"],
  ])("of %d s is not said more exactly than it is known", (seconds, said) => {
    expect(durationAbout(seconds, "en")).toBe(said);
  });
});

describe("money", () => {
  it.each([
    [1_234_560_000, "USD", "$1,234.56"],
    [4_067, "USD", "$0.004067"],
    [0, "EUR", "€0.00"],
    [1_000_000, "JPY", "¥1"],
  ])("of %d micro-units of %s", (micro, currency, said) => {
    expect(money(micro, currency, "en")).toBe(said);
  });

  it("at a glance has two digits below a cent", () => {
    expect(moneyAbout(4_067, "USD", "en")).toBe("$0.0041");
  });
});

describe("bytes", () => {
  it.each([
    [0, "0 bytes"],
    [1_500, "1.5 kB"],
    [16_777_216, "17 MB"],
    [40_000_000_000, "40 GB"],
  ])("of %d", (count, said) => {
    expect(bytes(count, "en")).toBe(said);
  });
});
