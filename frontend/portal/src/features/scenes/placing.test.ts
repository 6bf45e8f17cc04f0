import { describe, expect, it } from "vitest";
import { take } from "./picked";
import { type Dependency, isLacking, placed as placedIn } from "./placing";

function dependency(path: string, change: Partial<Dependency> = {}): Dependency {
  return {
    kind: "image",
    name: path,
    path,
    packed: false,
    needed: true,
    users: [],
    absolute: /^([A-Za-z]:|\\\\|\/(?!\/))/.test(path),
    state: "missing",
    resolved: null,
    files: 1,
    size: 0,
    numbers: null,
    missing_numbers: null,
    missing: [path.replace(/^\/\//, "")],
    ...change,
  };
}
const picked = (...paths: string[]) =>
  take(
    paths.map((path) =>
      Object.defineProperty(new File(["x"], path.split("/").at(-1) ?? ""), "webkitRelativePath", { value: path }),
    ),
  ).files;

const placed = (files: ReturnType<typeof picked>, dependencies: Dependency[]) =>
  placedIn(files, dependencies, "shots/a.blend");

describe("placed", () => {
  it("lays a lone file where the scene looks for it", () => {
    const wood = dependency("//textures/wood.png");

    const { places, answered, others } = placed(picked("wood.png"), [wood]);

    expect(places.get("wood.png")).toEqual([{ path: "textures/wood.png" }]);
    expect(answered).toEqual(new Set([wood]));
    expect(others).toBe(0);
  });

  it("lays a dropped folder's files where the scene looks for them", () => {
    const files = picked("textures/wood.png", "textures/iron.png");

    const { places } = placed(files, [dependency("//tex/wood.png"), dependency("//tex/iron.png")]);

    expect([...places.values()].flat().map(({ path }) => path)).toEqual(["tex/wood.png", "tex/iron.png"]);
  });

  it("does not mind upper and lower case, and spells the file as the scene does", () => {
    expect(placed(picked("Wood.PNG"), [dependency("//tex/wood.png")]).places.get("Wood.PNG")).toEqual([
      { path: "tex/wood.png" },
    ]);
  });

  it("tells two of one name apart by their folders", () => {
    const files = picked("new/oak/wood.png", "new/elm/wood.png");

    const { places } = placed(files, [dependency("//maps/elm/wood.png"), dependency("//maps/oak/wood.png")]);

    expect(places.get("oak/wood.png")).toEqual([{ path: "maps/oak/wood.png" }]);
    expect(places.get("elm/wood.png")).toEqual([{ path: "maps/elm/wood.png" }]);
  });

  it("lays one file in both places that nothing tells apart", () => {
    const { places } = placed(picked("wood.png"), [dependency("//a/wood.png"), dependency("//b/wood.png")]);

    expect(places.get("wood.png")).toEqual([{ path: "a/wood.png" }, { path: "b/wood.png" }]);
  });

  it.each([
    ["C:\\Maps\\Wood\\oak.png", "added/c_/maps/wood/oak.png"],
    ["\\\\server\\share\\oak.png", "added/server/share/oak.png"],
    ["/home/ann/maps/oak.png", "added/home/ann/maps/oak.png"],
  ])("sends what is looked for at %s with that spelling", (path, where) => {
    const outside = dependency(path, { state: "outside", missing: [] });

    const { places } = placed(picked("oak.png"), [outside]);

    expect(places.get("oak.png")).toEqual([{ path: where, source: path }]);
  });

  it("knows the frames of a sequence", () => {
    const smoke = dependency("//cache/smoke_0001.vdb", {
      kind: "sequence",
      numbers: "1-3",
      missing: ["cache/smoke_0002.vdb"],
    });

    const { places, others } = placed(picked("sim/smoke_0002.vdb", "sim/smoke_0003.vdb", "sim/fire_0002.vdb"), [smoke]);

    expect(places.get("smoke_0002.vdb")).toEqual([{ path: "cache/smoke_0002.vdb" }]);
    expect(places.get("smoke_0003.vdb")).toEqual([{ path: "cache/smoke_0003.vdb" }]);
    expect(others).toBe(1);
  });

  it("knows the tiles of a tile set that lies elsewhere", () => {
    const tiles = dependency("D:\\maps\\skin.<UDIM>.exr", { kind: "udim", numbers: "1001-1002", state: "outside" });

    const { places } = placed(picked("skin.1002.exr"), [{ ...tiles, missing: [] }]);

    expect(places.get("skin.1002.exr")).toEqual([
      { path: "added/d_/maps/skin.1002.exr", source: "D:\\maps\\skin.1002.exr" },
    ]);
  });

  it("lays what nothing looks for as it was given", () => {
    const { places, others, answered } = placed(picked("extra/notes.txt"), [dependency("//wood.png")]);

    expect(places.get("notes.txt")).toEqual([{ path: "extra/notes.txt" }]);
    expect([others, answered.size]).toEqual([1, 0]);
  });

  it("lays the mended scene over the broken one, wherever it was dropped from", () => {
    expect(placed(picked("a.blend"), []).places.get("a.blend")).toEqual([{ path: "shots/a.blend" }]);
  });

  it("knows the scene's own folder when it is dropped once more", () => {
    const { places } = placed(picked("job/shots/a.blend", "job/tex/new.png"), []);

    expect([...places.values()].flat().map(({ path }) => path)).toEqual(["shots/a.blend", "tex/new.png"]);
  });

  it("does not take what is there, packed, unneeded, or above the folder for missing", () => {
    const wants = [
      dependency("//a.png", { state: "found" }),
      dependency("//a.png", { packed: true }),
      dependency("//a.png", { needed: false }),
      dependency("//../a.png", { state: "outside", absolute: false, missing: [] }),
    ];

    expect(placed(picked("a.png"), wants).answered.size).toBe(0);
    expect(wants.map(isLacking)).toEqual([false, false, false, true]);
  });
});
