import { describe, expect, it } from "vitest";
import { filesOfEvent } from "./walk";

type Tree = { [name: string]: Tree | string };

/** A dropped folder as a browser hands it over: 100 entries at a time, and nothing before it is asked for. */
function entry(name: string, node: Tree | string, above = ""): FileSystemEntry {
  const fullPath = `${above}/${name}`;
  if (typeof node === "string")
    return {
      name,
      fullPath,
      isFile: true,
      file: (done: (file: File) => void) => done(new File([node], name)),
    } as never;
  const inner = Object.entries(node).map(([below, each]) => entry(below, each, fullPath));
  const createReader = () => ({ readEntries: (done: (some: FileSystemEntry[]) => void) => done(inner.splice(0, 100)) });
  return { name, fullPath, isFile: false, createReader } as never;
}

const drop = (...entries: FileSystemEntry[]) => ({
  type: "drop",
  dataTransfer: { items: entries.map((each) => ({ webkitGetAsEntry: () => each })), files: [] },
});
const pathsOf = async (event: unknown, tell = (_: number) => {}) =>
  (await filesOfEvent(event, tell)).map((file) => (file as File & { path: string }).path);

describe("filesOfEvent", () => {
  it("finds files in folders of folders", async () => {
    const shot = entry("shot", { "a.blend": "x", tex: { wood: { "oak.png": "y" } } });

    expect(await pathsOf(drop(shot))).toEqual(["/shot/a.blend", "/shot/tex/wood/oak.png"]);
  });

  it("finds all of more files than a browser gives at a time, and counts them", async () => {
    const counts: number[] = [];
    const many = Object.fromEntries(Array.from({ length: 230 }, (_, at) => [`${at}.png`, "x"]));

    const paths = await pathsOf(drop(entry("tex", many)), (count) => counts.push(count));

    expect(paths).toHaveLength(230);
    expect(counts).toEqual([50, 100, 150, 200, 0]);
  });

  it("does not walk what nobody renders", async () => {
    expect(await pathsOf(drop(entry("shot", { ".git": { config: "x" }, "a.blend": "y" })))).toEqual(["/shot/a.blend"]);
  });

  it("takes single files", async () => {
    expect(await pathsOf(drop(entry("a.blend", "x")))).toEqual(["/a.blend"]);
  });

  it("takes files that were chosen", async () => {
    const target = document.createElement("input");
    Object.defineProperty(target, "files", { value: [new File(["x"], "a.blend")] });

    expect((await filesOfEvent({ target }, () => {})).map((file) => (file as File).name)).toEqual(["a.blend"]);
  });
});
