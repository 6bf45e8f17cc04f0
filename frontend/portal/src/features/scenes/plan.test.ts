import { describe, expect, it } from "vitest";
import { PART_SIZE, type Sums } from "./digest";
import type { Picked } from "./picked";
import {
  AT_ONCE,
  actOf,
  BATCH_BYTES,
  batchesOf,
  bytesOf,
  isMuch,
  laidOver,
  manifestOf,
  notHere,
  type Part,
  partsLeft,
} from "./plan";

const sums = (digest: string, size: number): Sums => ({
  digest,
  size,
  parts: Array.from({ length: Math.max(1, Math.ceil(size / PART_SIZE)) }, (_, number) => `${digest}-${number}`),
});
const picked = (path: string): Picked => ({ path, given: path, file: new File([path], path) });

describe("manifestOf", () => {
  it("names every path, and each content once", () => {
    const files = ["a.blend", "wood.png", "copy.png"].map(picked);
    const read = new Map([
      ["a.blend", sums("a", 1)],
      ["wood.png", sums("w", 2)],
      ["copy.png", sums("w", 2)],
    ]);

    const { lines, contents } = manifestOf(files, read);

    expect(lines.map(({ path, digest }) => [path, digest])).toEqual([
      ["a.blend", "a"],
      ["wood.png", "w"],
      ["copy.png", "w"],
    ]);
    expect([...contents].map(([digest, { path }]) => [digest, path])).toEqual([
      ["a", "a.blend"],
      ["w", "wood.png"],
    ]);
  });

  it("refuses a file that nobody read", () => {
    expect(() => manifestOf([picked("a.blend")], new Map())).toThrow("a.blend was not read");
  });
});

describe("laidOver", () => {
  const base = [
    { path: "a.blend", digest: "a", size: 1 },
    { path: "wood.png", digest: "w", size: 2, source: "C:\\wood.png" },
  ];

  it("adds what is new, and lets a newer content take the older one's place", () => {
    const lines = laidOver(base, [
      { path: "wood.png", digest: "w2", size: 3 },
      { path: "iron.png", digest: "i", size: 4 },
    ]);

    expect(lines).toEqual([
      base[0],
      { path: "wood.png", digest: "w2", size: 3, source: "C:\\wood.png" },
      { path: "iron.png", digest: "i", size: 4 },
    ]);
  });

  it("lays a file where the scene looks for it, in as many places as it does", () => {
    const places = new Map([
      ["iron.png", [{ path: "tex/iron.png" }, { path: "outside/iron.png", source: "/home/ann/iron.png" }]],
    ]);

    const lines = laidOver(base, [{ path: "iron.png", digest: "i", size: 4 }], places);

    expect(lines.slice(2)).toEqual([
      { path: "tex/iron.png", digest: "i", size: 4 },
      { path: "outside/iron.png", source: "/home/ann/iron.png", digest: "i", size: 4 },
    ]);
  });
});

describe("notHere", () => {
  it("names the paths that the farm lacks and this upload does not have", () => {
    const lines = [
      { path: "a.blend", digest: "a", size: 1 },
      { path: "wood.png", digest: "w", size: 1 },
      { path: "copy.png", digest: "w", size: 1 },
    ];
    const contents = new Map([["a", { file: new File([], "a"), path: "a.blend", sums: sums("a", 1) }]]);

    expect(notHere(["a", "w"], lines, contents)).toEqual(["wood.png", "copy.png"]);
  });
});

describe("actOf", () => {
  const line = { path: "a.blend", digest: "d", size: 1 };

  it("is the same for the same files of a scene", async () => {
    expect(await actOf("s", "a.blend", [line])).toBe(await actOf("s", "a.blend", [{ ...line }]));
  });

  it.each([
    ["scene", ["t", "a.blend", [line]]],
    ["entry", ["s", "b.blend", [line]]],
    ["content", ["s", "a.blend", [{ ...line, digest: "e" }]]],
    ["spelling", ["s", "a.blend", [{ ...line, source: "C:\\a.blend" }]]],
  ] as const)("is another for another %s", async (_, [scene, entry, lines]) => {
    expect(await actOf(scene, entry, lines)).not.toBe(await actOf("s", "a.blend", [line]));
  });

  it("does not mind in which order files come", async () => {
    const other = { path: "b.png", digest: "e", size: 1 };

    expect(await actOf("s", "a.blend", [line, other])).toBe(await actOf("s", "a.blend", [other, line]));
  });

  it("fits in the header", async () => {
    expect((await actOf("s", "a.blend", [line])).length).toBeLessThanOrEqual(200);
  });
});

describe("partsLeft", () => {
  const three = sums("d", 2 * PART_SIZE + 1);

  it("are those the store does not have", () => {
    expect(partsLeft(three, [{ number: 1, sha256: "d-1" }]).map(({ number }) => number)).toEqual([0, 2]);
  });

  it("include one that the store has with other bytes", () => {
    expect(partsLeft(three, [{ number: 1, sha256: "other" }]).map(({ number }) => number)).toEqual([0, 1, 2]);
  });

  it("of an empty file is its one empty part", () => {
    expect(partsLeft(sums("e", 0), [])).toEqual([{ digest: "e", number: 0 }]);
  });
});

describe("batchesOf", () => {
  const parts = (count: number): Part[] => Array.from({ length: count }, (_, at) => ({ digest: `${at}`, number: 0 }));

  it("hold no more parts than one request may ask for", () => {
    expect([...batchesOf(parts(AT_ONCE * 2 + 1), () => 1)].map((batch) => batch.length)).toEqual([500, 500, 1]);
  });

  it("hold no more bytes than are sent while an address is valid", () => {
    const big = Array.from({ length: 33 }, (_, number) => ({ digest: "d", number }));

    const batches = [...batchesOf(big, () => 33 * PART_SIZE)];

    expect(batches.map((batch) => batch.length)).toEqual([16, 16, 1]);
    expect(bytesOf(batches[0] ?? [], () => 33 * PART_SIZE)).toBe(BATCH_BYTES);
  });

  it("lose no part and name none twice", () => {
    const all = parts(1_203);

    expect([...batchesOf(all, () => PART_SIZE)].flat()).toEqual(all);
  });

  it("of nothing are none", () => {
    expect([...batchesOf([], () => 1)]).toEqual([]);
  });
});

describe("isMuch", () => {
  it.each([
    [1, 1, false],
    [499, 1, false],
    [500, 1, true],
    [1, 3 * 1024 ** 3, true],
  ])("of %i contents of %i bytes: %s", (count, size, much) => {
    expect(
      isMuch(
        Array.from({ length: count }, (_, at) => `${at}`),
        () => size,
      ),
    ).toBe(much);
  });
});
