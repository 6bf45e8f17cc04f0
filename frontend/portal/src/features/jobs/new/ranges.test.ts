import { describe, expect, it } from "vitest";
import { isComplaint, rangeOf, readFrames } from "./ranges";

describe("readFrames", () => {
  it.each([
    ["1", 1, 1, 1, 1],
    ["1-37", 37, 1, 19, 37],
    [" 1 - 10 , 15 , 20-40:2 ", 22, 1, 15, 40],
    ["1-10:3", 4, 1, 4, 10],
    ["1-11:3", 4, 1, 4, 10],
    ["10-1:-1", 10, 10, 6, 1],
    ["-5--1", 5, -5, -3, -1],
    ["-2-2", 5, -2, 0, 2],
    ["100,1-2", 3, 100, 1, 2],
    ["5-5:-1", 1, 5, 5, 5],
    ["1-1000000", 1_000_000, 1, 500_000, 1_000_000],
  ])("counts %s: %i frames from %i by way of %i to %i", (text, count, first, middle, last) => {
    expect(readFrames(text)).toEqual({ count, first, middle, last });
  });

  it.each([
    ["", { code: "empty" }],
    ["  ", { code: "empty" }],
    ["1,,2", { code: "comma" }],
    ["1,", { code: "comma" }],
    ["1-x", { code: "misspelt", part: "1-x" }],
    ["1.5", { code: "misspelt", part: "1.5" }],
    ["１-５", { code: "misspelt", part: "１-５" }],
    ["1-", { code: "open", part: "1-" }],
    ["1-9:", { code: "stepless", part: "1-9:" }],
    ["1-9:0", { code: "zero", part: "1-9:0" }],
    ["9-1", { code: "backwards", part: "9-1" }],
    ["1-9:-1", { code: "forwards", part: "1-9:-1" }],
    ["1-10,5", { code: "overlap", part: "1-10", other: "5" }],
    ["5,1-10", { code: "overlap", part: "1-10", other: "5" }],
  ])("says what is wrong with %j", (text, complaint) => {
    const read = readFrames(text);

    expect(read).toEqual(complaint);
    expect(isComplaint(read)).toBe(true);
  });

  it("lets parts lie between one another's steps only end to end, as the farm does", () => {
    expect(isComplaint(readFrames("1-9:2,2-10:2"))).toBe(true);
    expect(isComplaint(readFrames("1-9:2,10-20:2"))).toBe(false);
  });
});

describe("rangeOf", () => {
  it.each([
    [{ start: 1, end: 250, step: 1 }, "1-250"],
    [{ start: 1, end: 250, step: 5 }, "1-250:5"],
    [{ start: 7, end: 7, step: 1 }, "7"],
    [{ start: 9, end: 1, step: 1 }, ""],
  ])("of %o is %j", (frames, text) => {
    expect(rangeOf(frames)).toBe(text);
  });
});
