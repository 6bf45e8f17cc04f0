import { describe, expect, it } from "vitest";
import { checkValues, controlOf, groupsOf, isNeeded, labelOf, type Parameter, written } from "./parameters";

const parameter = (name: string, change: Partial<Parameter> = {}): Parameter => ({ name, type: "STRING", ...change });

describe("groupsOf", () => {
  it("keeps the template's groups and order, without what is hidden and what the upload gives", () => {
    const groups = groupsOf([
      parameter("SceneFile", { type: "PATH", userInterface: { groupLabel: "Scene" } }),
      parameter("Frames", { userInterface: { groupLabel: "Scene" } }),
      parameter("Samples", { userInterface: { groupLabel: "Quality" } }),
      parameter("Scripts", { userInterface: { control: "HIDDEN" } }),
      parameter("Camera", { userInterface: { groupLabel: "Scene" } }),
      parameter("Loose"),
    ]);

    expect(groups.map(({ label, parameters }) => [label, parameters.map(({ name }) => name)])).toEqual([
      ["Scene", ["Frames", "Camera"]],
      ["Quality", ["Samples"]],
      ["", ["Loose"]],
    ]);
  });
});

describe("controlOf", () => {
  it.each([
    [parameter("a"), "text"],
    [parameter("a", { allowedValues: ["x"] }), "choice"],
    [parameter("a", { type: "INT" }), "number"],
    [parameter("a", { type: "FLOAT" }), "number"],
    [parameter("a", { type: "INT", allowedValues: [1, 2] }), "choice"],
    [parameter("a", { userInterface: { control: "CHECK_BOX" } }), "check"],
    [parameter("a", { userInterface: { control: "MULTILINE_EDIT" } }), "lines"],
    [parameter("a", { userInterface: { control: "LINE_EDIT" } }), "text"],
    [parameter("a", { type: "INT", userInterface: { control: "SPIN_BOX" } }), "number"],
  ])("of %o is %s", (each, control) => {
    expect(controlOf(each)).toBe(control);
  });
});

describe("labelOf", () => {
  it("is the template's, or the name", () => {
    expect(labelOf(parameter("Frames", { userInterface: { label: "Which frames" } }))).toBe("Which frames");
    expect(labelOf(parameter("Frames"))).toBe("Frames");
  });
});

describe("isNeeded", () => {
  it("is what has no default; an empty one is one", () => {
    expect([parameter("a"), parameter("a", { default: "" })].map(isNeeded)).toEqual([true, false]);
  });
});

describe("checkValues", () => {
  it.each([
    [undefined, { yes: "true", no: "false" }],
    [["OFF", "ON"], { yes: "ON", no: "OFF" }],
    [["No", "Yes"], { yes: "Yes", no: "No" }],
    [["0", "1"], { yes: "1", no: "0" }],
  ])("of %o are %o", (allowedValues, values) => {
    expect(checkValues(parameter("a", allowedValues ? { allowedValues } : {}))).toEqual(values);
  });
});

describe("written", () => {
  it("says only what was filled in", () => {
    expect(written({ Frames: " 1-3 ", Camera: "", Engine: "  " })).toEqual({ Frames: "1-3" });
  });
});
