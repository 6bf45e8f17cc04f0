/** The frame grid's model: 100,000 cells as one byte each, changed in place. Pure. */
import type { Schema } from "@/api/client";

export type TaskStatus = Schema["TaskStatusEnum"];
export const LETTERS: Record<TaskStatus, string> = {
  pending: "p",
  ready: "r",
  leased: "l",
  succeeded: "s",
  failed: "f",
  cancelled: "c",
};
const NAMES = new Map(Object.entries(LETTERS).map(([name, letter]) => [letter.charCodeAt(0), name as TaskStatus]));

export interface StepGrid {
  id: string;
  index: number;
  name: string;
  count: number;
  runs: readonly (readonly [number, number, number])[] | null;
  cells: Uint8Array; // character codes of LETTERS
}

export interface JobGrid {
  revision: number;
  steps: StepGrid[];
}

export function readGrid(grid: Schema["Grid"]): JobGrid {
  const encoder = new TextEncoder();
  return {
    revision: grid.revision,
    steps: grid.steps.map((step) => ({
      id: step.id,
      index: step.index,
      name: step.name,
      count: step.count,
      runs: step.frames?.map(([first = 0, last = 0, by = 1]) => [first, last, by] as const) ?? null,
      cells: encoder.encode(step.statuses),
    })),
  };
}

/** Take changes in; gives how many cells are other than before. A change that came already changes nothing. */
export function applyChanges(grid: JobGrid, changes: Schema["Changes"]): number {
  let changed = 0;
  for (const { step: id, indexes, statuses } of changes.changes) {
    const cells = grid.steps.find((step) => step.id === id)?.cells;
    if (!cells) continue;
    indexes.forEach((index, nth) => {
      const code = statuses.charCodeAt(nth);
      if (index < cells.length && cells[index] !== code) {
        cells[index] = code;
        changed += 1;
      }
    });
  }
  grid.revision = Math.max(grid.revision, changes.revision);
  return changed;
}

export function statusAt(step: StepGrid, index: number): TaskStatus | undefined {
  return NAMES.get(step.cells[index] ?? 0);
}

/** How many cells have each status: one look at each. */
export function countCells(step: StepGrid): Record<TaskStatus, number> {
  const counts: Record<TaskStatus, number> = { pending: 0, ready: 0, leased: 0, succeeded: 0, failed: 0, cancelled: 0 };
  for (const cell of step.cells) {
    const status = NAMES.get(cell);
    if (status) counts[status] += 1;
  }
  return counts;
}

/** The frame of a cell: the index-th number of the step's runs laid end to end; null for a task that is no frame. */
export function frameAt(step: StepGrid, index: number): number | null {
  let rest = index;
  for (const [first, last, by] of step.runs ?? []) {
    const length = Math.floor((last - first) / by) + 1;
    if (rest < length) return first + rest * by;
    rest -= length;
  }
  return null;
}

/** Where an arrow key leads, in a grid so many cells wide. */
export function moved(index: number, key: string, columns: number, count: number): number {
  const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  const next = index + (steps[key] ?? 0);
  return next < 0 || next >= count ? index : next;
}
