/** What a scene says of itself, beside the parameters that a person may say otherwise. Pure. */
import type { Schema } from "@/api/client";
import { rangeOf } from "./ranges";

export type Scene = Schema["ReportScene"];

export interface Own {
  /** The scene's own value, as a person reads it; "" if it has none. */
  value: string;
  /** What there is to choose among, as far as the scene knows. */
  choices?: string[];
  /** Several may be chosen, separated by commas. */
  isSeveral?: boolean;
}

const LACKS = new Set(["missing_files", "outside_files", "missing_data"]);

/** Whether something that frames need is not in the upload: they are rendered only if a person says so. */
export const isIncomplete = ({ problems }: Schema["Report"]) =>
  problems.some(({ code, severity }) => severity === "error" && LACKS.has(code));

/** The scene that renders: the one that is named, else the one that opens. */
export function chosenScene(report: Schema["Report"], name: string | undefined): Scene | undefined {
  const { scenes } = report;
  return scenes.find((each) => each.name === name) ?? scenes.find(({ active }) => active) ?? scenes[0];
}

/** What the scene has for a parameter, by its name in the farm's renderers; none for one it knows nothing of. */
export function ownValue(name: string, scene: Scene, report: Schema["Report"]): Own | undefined {
  switch (name) {
    case "Frames":
      return { value: rangeOf(scene.frames) };
    case "Scene":
      return { value: scene.name, choices: report.scenes.map((each) => each.name) };
    case "Camera":
      return { value: camerasOf(scene).join(", "), choices: scene.cameras };
    case "ViewLayers":
      return {
        value: scene.view_layers
          .filter(({ on }) => on)
          .map((layer) => layer.name)
          .join(", "),
        choices: scene.view_layers.map((layer) => layer.name),
        isSeveral: true,
      };
    case "Engine":
      return { value: scene.engine };
    case "Samples":
      return { value: scene.samples === null ? "" : String(scene.samples) };
    case "ResolutionPercent":
      return { value: String(scene.resolution.percent) };
    case "FileFormat":
      return { value: scene.output.movie ? "PNG" : scene.output.format };
    case "ColorDepth":
      return { value: String(scene.output.color_depth) };
    default:
      return undefined;
  }
}

/** The cameras that frames are seen by: those that markers change to, else the scene's own. */
export function camerasOf(scene: Scene): string[] {
  const bound = scene.markers.map(({ camera }) => camera).filter((camera) => camera !== null);
  return bound.length > 0 ? [...new Set(bound)] : scene.camera === null ? [] : [scene.camera];
}

/** The picture's size at a percentage, as Blender rounds it. */
export function sizeAt({ resolution: { x, y, percent } }: Scene, wanted: number | undefined): string {
  const used = wanted || percent;
  return `${Math.floor((x * used) / 100)}×${Math.floor((y * used) / 100)}`;
}

/** Frames a second, as people say it: 24, 29.97. */
export function rateOf({ fps: [above = 0, below = 1] }: Scene): number {
  return Math.round((above / below) * 100) / 100;
}
