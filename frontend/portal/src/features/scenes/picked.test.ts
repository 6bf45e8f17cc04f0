import { describe, expect, it } from "vitest";
import { entries, merged, picked } from "./picked";

const file = (path: string) =>
  Object.defineProperty(new File(["x"], path.split("/").at(-1) ?? ""), "webkitRelativePath", { value: path });

describe("picked", () => {
  it("takes the one common folder's name away and leaves litter out", () => {
    const files = ["shot/a.blend", "shot/tex/wood.png", "shot/.DS_Store", "shot/a.blend1"].map(file);

    expect(picked(files).map(({ path }) => path)).toEqual(["a.blend", "tex/wood.png"]);
  });

  it("keeps names where files lie beside a folder", () => {
    expect(picked([file("a.blend"), file("tex/wood.png")]).map(({ path }) => path)).toEqual([
      "a.blend",
      "tex/wood.png",
    ]);
  });
});

describe("merged", () => {
  it("lets what is added later take the place of what had its path", () => {
    const before = picked([file("a.blend"), file("tex/wood.png")]);
    const later = picked([file("tex/wood.png"), file("b.txt")]);

    expect(merged(before, later).map(({ path }) => path)).toEqual(["a.blend", "tex/wood.png", "b.txt"]);
  });
});

describe("entries", () => {
  it("puts the nearest to the top first", () => {
    const files = picked(["lib/chair.blend", "z.blend", "a.blend", "a.png"].map(file));

    expect(entries(files)).toEqual(["a.blend", "z.blend", "lib/chair.blend"]);
  });
});
