import { describe, expect, it } from "vitest";
import { safeBack } from "./SignInPage";

describe("safeBack", () => {
  it.each([
    ["/jobs/7?tab=cost", "/jobs/7?tab=cost"],
    [undefined, "/jobs"],
    ["https://elsewhere.example/", "/jobs"],
    ["//elsewhere.example/", "/jobs"],
    ["/\\elsewhere.example", "/jobs"],
    ["/sign-in?back=/jobs", "/jobs"],
  ])("of %s is %s", (asked, back) => {
    expect(safeBack(asked)).toBe(back);
  });
});
