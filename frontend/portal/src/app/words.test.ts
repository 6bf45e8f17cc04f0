import { describe, expect, it } from "vitest";
import { words } from "./i18n";

function keys(of: object, prefix = ""): string[] {
  return Object.entries(of).flatMap(([key, value]) =>
    typeof value === "object" ? keys(value, `${prefix}${key}.`) : [`${prefix}${key}`],
  );
}

function slots(of: object): Record<string, string[]> {
  const texts = (each: object, prefix = ""): [string, string][] =>
    Object.entries(each).flatMap(([key, value]) =>
      typeof value === "object"
        ? texts(value, `${prefix}${key}.`)
        : [[`${prefix}${key}`, String(value)] as [string, string]],
    );
  return Object.fromEntries(
    texts(of).map(([key, text]) => [key, [...text.matchAll(/{{(\w+)}}/g)].map((m) => m[1] ?? "").sort()]),
  );
}

describe("the words", () => {
  it("are the same in all languages, and have the same numbers in them", () => {
    expect(keys(words["zh-CN"]).sort()).toEqual(keys(words.en).sort());
    expect(slots(words["zh-CN"])).toEqual(slots(words.en));
  });
});
