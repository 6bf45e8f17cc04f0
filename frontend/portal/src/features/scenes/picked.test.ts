import { describe, expect, it } from "vitest";
import { merged, opening, sceneName, take } from "./picked";

const file = (path: string) =>
  Object.defineProperty(new File(["x"], path.split("/").at(-1) ?? ""), "webkitRelativePath", { value: path });
const paths = (given: string[]) => take(given.map(file)).files.map(({ path }) => path);

describe("take", () => {
  it("takes the one common folder's name away, and remembers it", () => {
    const { files } = take(["shot/a.blend", "shot/tex/wood.png"].map(file));

    expect(files.map(({ path, given }) => [path, given])).toEqual([
      ["a.blend", "shot/a.blend"],
      ["tex/wood.png", "shot/tex/wood.png"],
    ]);
  });

  it("keeps names where files lie beside a folder", () => {
    expect(paths(["a.blend", "tex/wood.png"])).toEqual(["a.blend", "tex/wood.png"]);
  });

  it("leaves out what editors and systems leave behind, and counts it", () => {
    const taken = take(["s/a.blend", "s/a.blend1", "s/.DS_Store", "s/.git/config", "s/thumbs.db"].map(file));

    expect(taken.files.map(({ path }) => path)).toEqual(["a.blend"]);
    expect(taken.leftOut).toBe(4);
  });

  it("keeps hidden files that are not litter", () => {
    expect(paths(["s/.cache/smoke.vdb", "s/a.blend"])).toEqual([".cache/smoke.vdb", "a.blend"]);
  });

  it("names letters with accents in one way", () => {
    expect(paths(["s/e\u0301.blend"])).toEqual(["\u00e9.blend"]);
  });

  it("lays a second folder beside what is there, and the same one over it", () => {
    const more = ["tex/wood.png", "tex/iron.png"].map(file);

    expect(take(more, "shot/").files.map(({ path }) => path)).toEqual(["tex/wood.png", "tex/iron.png"]);
    expect(take(more, "tex/").files.map(({ path }) => path)).toEqual(["wood.png", "iron.png"]);
  });

  it("takes the path of a dropped file, which begins with a slash", () => {
    const dropped = Object.assign(new File(["x"], "a.blend"), { path: "./shot/a.blend" });

    expect(take([dropped]).files[0]?.given).toBe("shot/a.blend");
  });
});

describe("merged", () => {
  it("lets what is added later take the place of what had its path", () => {
    const before = take(["a.blend", "tex/wood.png"].map(file)).files;
    const later = take(["tex/wood.png", "b.txt"].map(file)).files;

    expect(merged(before, later).map(({ path }) => path)).toEqual(["a.blend", "tex/wood.png", "b.txt"]);
  });
});

describe("opening", () => {
  it("guesses the only one nearest to the top", () => {
    expect(opening(["lib/chair.blend", "z.blend", "z.png"])).toEqual({
      choices: ["z.blend", "lib/chair.blend"],
      guess: "z.blend",
    });
  });

  it("asks when several are as near", () => {
    expect(opening(["b.blend", "a.blend", "lib/c.blend"])).toEqual({
      choices: ["a.blend", "b.blend", "lib/c.blend"],
      guess: undefined,
    });
  });

  it("knows none where there is none", () => {
    expect(opening(["a.png"])).toEqual({ choices: [], guess: undefined });
  });
});

describe("sceneName", () => {
  it("is the opening file's name", () => {
    expect(sceneName("shots/sh010.v2.blend")).toBe("sh010.v2");
  });
});
