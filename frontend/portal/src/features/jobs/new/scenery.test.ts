import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { camerasOf, chosenScene, ownValue, rateOf, type Scene, sizeAt } from "./scenery";

const scene = (change: Partial<Scene> = {}): Scene => ({
  name: "Main",
  active: true,
  drawn: true,
  engine: "CYCLES",
  samples: 128,
  camera: "Wide",
  cameras: ["Close", "Wide"],
  markers: [],
  view_layers: [
    { name: "Beauty", on: true },
    { name: "Masks", on: false },
  ],
  frames: { start: 1, end: 48, step: 1 },
  fps: [24, 1],
  resolution: { x: 1920, y: 1080, percent: 50, width: 960, height: 540 },
  output: { format: "OPEN_EXR", movie: false, color_mode: "RGBA", color_depth: 16 },
  ...change,
});
const report = (...scenes: Scene[]) => ({ scenes }) as Schema["Report"];

describe("chosenScene", () => {
  const all = report(scene({ name: "Test", active: false }), scene());

  it("is the one that is named, else the one that opens", () => {
    expect([chosenScene(all, "Test")?.name, chosenScene(all, "")?.name, chosenScene(all, "None")?.name]).toEqual([
      "Test",
      "Main",
      "Main",
    ]);
  });
});

describe("ownValue", () => {
  it.each([
    ["Frames", { value: "1-48" }],
    ["Scene", { value: "Main", choices: ["Main"] }],
    ["Camera", { value: "Wide", choices: ["Close", "Wide"] }],
    ["ViewLayers", { value: "Beauty", choices: ["Beauty", "Masks"], isSeveral: true }],
    ["Engine", { value: "CYCLES" }],
    ["Samples", { value: "128" }],
    ["ResolutionPercent", { value: "50" }],
    ["FileFormat", { value: "OPEN_EXR" }],
    ["ColorDepth", { value: "16" }],
    ["Unheard", undefined],
  ])("of %s is %o", (name, own) => {
    expect(ownValue(name, scene(), report(scene()))).toEqual(own);
  });

  it("of a scene that writes a movie is PNG, as the farm does", () => {
    const movie = scene({ output: { format: "FFMPEG", movie: true, color_mode: null, color_depth: 8 } });

    expect(ownValue("FileFormat", movie, report(movie))?.value).toBe("PNG");
  });

  it("of samples that an engine has none of is empty", () => {
    expect(ownValue("Samples", scene({ samples: null }), report(scene()))?.value).toBe("");
  });
});

describe("camerasOf", () => {
  it("are those that markers change to, once each", () => {
    const markers = ["Close", "Wide", "Close"].map((camera, at) => ({ frame: at * 10, camera }));

    expect(camerasOf(scene({ markers }))).toEqual(["Close", "Wide"]);
  });

  it("are none in a scene without one", () => {
    expect(camerasOf(scene({ camera: null }))).toEqual([]);
  });
});

describe("sizeAt", () => {
  it("is the scene's, or at the percentage that is wanted", () => {
    expect([sizeAt(scene(), undefined), sizeAt(scene(), 33)]).toEqual(["960×540", "633×356"]);
  });
});

describe("rateOf", () => {
  it("is said with two places at most", () => {
    expect([rateOf(scene()), rateOf(scene({ fps: [30000, 1001] }))]).toEqual([24, 29.97]);
  });
});
