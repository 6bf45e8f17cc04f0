import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { applyChanges, countCells, frameAt, moved, readGrid, statusAt } from "./grid";

const answer: Schema["Grid"] = {
  job: "j",
  revision: 5,
  steps: [
    {
      id: "a",
      index: 0,
      name: "Render",
      status: "active",
      count: 6,
      frames: [
        [1, 9, 4],
        [20, 22, 1],
      ],
      statuses: "rrlsfc",
    },
  ],
};
const changed = (indexes: number[], statuses: string, revision = 9) =>
  ({ revision, is_reload: false, changes: [{ step: "a", indexes, statuses }] }) as unknown as Schema["Changes"];

describe("readGrid", () => {
  it("gives each cell its status and its frame", () => {
    const step = readGrid(answer).steps[0];
    if (!step) throw new Error("no step");

    expect(Array.from({ length: 6 }, (_, i) => statusAt(step, i))).toEqual([
      "ready",
      "ready",
      "leased",
      "succeeded",
      "failed",
      "cancelled",
    ]);
    expect(Array.from({ length: 7 }, (_, i) => frameAt(step, i))).toEqual([1, 5, 9, 20, 21, 22, null]);
  });
});

describe("countCells", () => {
  it("counts each status, also those that no cell has", () => {
    const step = readGrid(answer).steps[0];

    expect(step && countCells(step)).toEqual({
      pending: 0,
      ready: 2,
      leased: 1,
      succeeded: 1,
      failed: 1,
      cancelled: 1,
    });
  });
});

describe("applyChanges", () => {
  it("changes only what is other, once", () => {
    const grid = readGrid(answer);

    expect(applyChanges(grid, changed([0, 3], "ls"))).toBe(1);
    expect(applyChanges(grid, changed([0, 3], "ls"))).toBe(0);
    expect(grid.steps[0] && statusAt(grid.steps[0], 0)).toBe("leased");
    expect(grid.revision).toBe(9);
  });

  it("never goes back, and leaves alone what it does not know", () => {
    const grid = readGrid(answer);

    expect(applyChanges(grid, changed([99], "s", 3))).toBe(0);
    expect(grid.revision).toBe(5);
    expect(grid.steps[0]?.cells.length).toBe(6);
  });
});

describe("moved", () => {
  it.each([
    [0, "ArrowLeft", 0],
    [0, "ArrowRight", 1],
    [1, "ArrowDown", 4],
    [4, "ArrowUp", 1],
    [5, "ArrowDown", 5],
    [3, "Home", 0],
    [0, "End", 5],
  ])("from %i by %s to %i", (from, key, to) => {
    expect(moved(from, key, 3, 6)).toBe(to);
  });
});
