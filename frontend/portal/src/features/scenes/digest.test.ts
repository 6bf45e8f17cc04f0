import { describe, expect, it } from "vitest";
import { PART_SIZE, partCount, sumsOf } from "./digest";

// Vectors by the Python client: digest_of_parts of the same bytes.
describe("sumsOf", () => {
  it.each([
    ["nothing", new Blob([]), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    ["abc", new Blob(["abc"]), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  ])("of %s is its SHA-256", async (_, blob, digest) => {
    expect((await sumsOf(blob)).digest).toBe(digest);
  });

  it("of more than one part is the sum of the parts' sums", async () => {
    const blob = new Blob([new Uint8Array(PART_SIZE), new Uint8Array([1])]);
    let read = 0;

    const sums = await sumsOf(blob, (count) => {
      read += count;
    });

    expect(sums.parts).toHaveLength(2);
    expect(sums.digest).toBe("74637ca3876e53bee450a3540bf40d7f2ed03d2eb4becd21478a8e42b812395e");
    expect(read).toBe(PART_SIZE + 1);
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
