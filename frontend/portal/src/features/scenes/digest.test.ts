import { describe, expect, it } from "vitest";
import { digestOfParts, PART_SIZE, partCount, partLength, sumsOf } from "./digest";

/** Bytes that any language makes alike: i × 7 mod 251, repeated each 251. */
function body(size: number): Blob {
  const pattern = Uint8Array.from({ length: 251 }, (_, at) => (at * 7) % 251);
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 251) bytes.set(pattern.subarray(0, Math.min(251, size - at)), at);
  return new Blob([bytes]);
}

// Computed by farmhand.digests of the Python client, from the same bytes.
const VECTORS: [number, string][] = [
  [0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  [3, "b361d0f9a938a2bb4fbdc9c21dc5a859788041b0040919d8a811c1888184f4df"],
  [PART_SIZE - 1, "e92ee2eba9e2e3facf0ce3ee2bba3094f0ae0a8621bfd19feeb29889dc3945e4"],
  [PART_SIZE, "32fcd45e7925696bf0a496d80f917757352c457cfe65eda2010f03e0fe53c2b0"],
  [PART_SIZE + 1, "a65450437fe994f18501cb841afb1fb2e51edd7620c0ea2a65a37828fcdbabdb"],
  [2 * PART_SIZE, "0d9960ae577a621e752087b9bc41fae233bdb35a7c1de360eac2a6fdbf96bc8c"],
  [2 * PART_SIZE + 5, "6a49d3a50e4ba52a70a943dddafa964b6978fb09c9946030a6426e5e25acbecb"],
];

describe("sumsOf", () => {
  it.each(VECTORS)("of %i bytes is what the Python client says", async (size, digest) => {
    expect((await sumsOf(body(size))).digest).toBe(digest);
  });

  it("hears of every byte it reads, a part at a time", async () => {
    const read: number[] = [];

    const sums = await sumsOf(body(PART_SIZE + 1), (count) => read.push(count));

    expect(read).toEqual([PART_SIZE, 1]);
    expect(sums.parts).toHaveLength(2);
  });
});

describe("digestOfParts", () => {
  it("of one part is that part's own sum", async () => {
    expect(await digestOfParts(["ab".repeat(32)])).toBe("ab".repeat(32));
  });
});

describe("partCount", () => {
  it.each([
    [0, 1],
    [1, 1],
    [PART_SIZE, 1],
    [PART_SIZE + 1, 2],
  ])("of %i bytes is %i", (size, count) => {
    expect(partCount(size)).toBe(count);
  });
});

describe("partLength", () => {
  it("is whole for all but the last", () => {
    expect([0, 1, 2].map((number) => partLength(2 * PART_SIZE + 5, number))).toEqual([PART_SIZE, PART_SIZE, 5]);
  });
});
