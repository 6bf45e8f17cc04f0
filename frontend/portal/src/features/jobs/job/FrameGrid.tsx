/** Every task of a step as a cell on a canvas: only the rows in sight are painted, from one byte a cell. */
import { Box, Group, Text, useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import {
  type KeyboardEvent,
  type PointerEvent,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useTranslation } from "react-i18next";
import { number } from "@/app/format";
import { countCells, frameAt, moved, type StepGrid, statusAt, type TaskStatus } from "./grid";

export interface Range {
  from: number;
  to: number;
}

const CELL = 14; // pixels, its gap in it
const GAP = 2;
const MAX_HEIGHT = 420;

// Told apart by lightness too, and failed and running by a mark: not everybody sees red and green.
const COLOURS: Record<TaskStatus, { dark: string; light: string; mark?: "cross" | "dot" }> = {
  pending: { dark: "#3a3a3a", light: "#dcdcdc" },
  ready: { dark: "#5c5c5c", light: "#b4b4b4" },
  leased: { dark: "#3f8fdc", light: "#1f6fbf", mark: "dot" },
  succeeded: { dark: "#4fc98f", light: "#3aa876" },
  failed: { dark: "#e5484d", light: "#c62a2f", mark: "cross" },
  cancelled: { dark: "#1f1f1f", light: "#f2f2f2" },
};

interface Props {
  step: StepGrid;
  version: number; // goes up when cells changed
  chosen: Range | undefined;
  choose: (range: Range | undefined) => void;
}

export function FrameGrid({ step, version, chosen, choose }: Props) {
  const { t } = useTranslation("jobs");
  const scheme = useComputedColorScheme("dark");
  const { ref: sized, width } = useElementSize();
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const anchor = useRef<number | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const columns = Math.max(1, Math.floor(width / CELL));
  const rows = Math.ceil(step.count / columns);
  // biome-ignore lint/correctness/useExhaustiveDependencies: cells change in place; version says when
  const counts = useMemo(() => countCells(step), [step, version]);
  const height = Math.min(MAX_HEIGHT, rows * CELL + GAP);

  const paint = useCallback(() => {
    const context = canvas.current?.getContext("2d", { alpha: false });
    if (!context || !scroller.current || width === 0) return;
    paintRows(context, { step, columns, width, height, top: scroller.current.scrollTop, scheme, chosen });
  }, [step, columns, width, height, scheme, chosen]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: cells change in place; version says when
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(paint);
    return () => cancelAnimationFrame(frame);
  }, [paint, version]);
  useEffect(() => {
    const element = scroller.current;
    let asked = 0;
    const onScroll = () => {
      cancelAnimationFrame(asked);
      asked = requestAnimationFrame(paint);
    };
    element?.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      cancelAnimationFrame(asked);
      element?.removeEventListener("scroll", onScroll);
    };
  }, [paint]);

  const at = (event: PointerEvent): number | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !scroller.current) return null;
    const column = Math.floor((event.clientX - box.left) / CELL);
    const row = Math.floor((event.clientY - box.top + scroller.current.scrollTop) / CELL);
    const index = row * columns + column;
    return column >= 0 && column < columns && index >= 0 && index < step.count ? index : null;
  };
  const extend = (index: number, isRange: boolean) => {
    if (!isRange || anchor.current === null) anchor.current = index;
    choose({ from: Math.min(anchor.current, index), to: Math.max(anchor.current, index) });
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") return choose(undefined);
    if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      return choose({ from: 0, to: step.count - 1 });
    }
    if (!/^(Arrow|Home|End)/.test(event.key)) return;
    event.preventDefault();
    const end = chosen ? (anchor.current === chosen.to ? chosen.from : chosen.to) : -1;
    const next = end < 0 ? 0 : moved(end, event.key, columns, step.count);
    extend(next, event.shiftKey);
    const y = Math.floor(next / columns) * CELL;
    const element = scroller.current;
    if (element && (y < element.scrollTop || y + CELL > element.scrollTop + height))
      element.scrollTop = Math.max(0, y - height / 2);
  };
  const told = hovered ?? chosen?.to ?? null;
  return (
    <Box ref={sized}>
      <div
        ref={scroller}
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application takes keys
        tabIndex={0}
        aria-label={`${step.name}: ${t("doneOf", { done: number(counts.succeeded), all: number(step.count) })}. ${t("gridHelp")}`}
        style={{ height, overflowY: rows * CELL > height ? "auto" : "hidden", position: "relative" }}
        onKeyDown={onKey}
        onPointerDown={(event) => {
          const index = at(event);
          if (index === null) return;
          extend(index, event.shiftKey);
          event.currentTarget.focus({ preventScroll: true });
        }}
        onPointerMove={(event) => {
          const index = at(event);
          if (index !== hovered) setHovered(index);
          if (event.buttons === 1 && index !== null && index !== chosen?.to) extend(index, true);
        }}
        onPointerLeave={() => setHovered(null)}
      >
        <canvas ref={canvas} style={{ position: "sticky", top: 0, display: "block", width: columns * CELL, height }} />
        <div style={{ height: Math.max(0, rows * CELL + GAP - height) }} />
      </div>
      <Group mt={6} justify="space-between" mih={22}>
        <Legend counts={counts} scheme={scheme} />
        <Text size="xs" c="dimmed" aria-live="polite">
          {told !== null && <Cell step={step} index={told} />}
        </Text>
      </Group>
    </Box>
  );
}

function Cell({ step, index }: { step: StepGrid; index: number }) {
  const { t } = useTranslation("jobs");
  const status = statusAt(step, index);
  const frame = frameAt(step, index);
  return (
    <>
      {frame === null ? t("task", { index }) : t("frame", { frame })}
      {status && `: ${t(`tasks.${status}`)}`}
    </>
  );
}

function Legend({ counts, scheme }: { counts: Record<TaskStatus, number>; scheme: "dark" | "light" }) {
  const { t } = useTranslation("jobs");
  return (
    <Group gap="md">
      {(Object.keys(COLOURS) as TaskStatus[])
        .map((status) => ({ status, count: counts[status] }))
        .filter(({ count }) => count > 0)
        .map(({ status, count }) => (
          <Group key={status} gap={6}>
            <Box w={CELL - GAP} h={CELL - GAP} bg={COLOURS[status][scheme]} bd="1px solid dark.4" />
            <Text size="xs">
              {number(count)} {t(`tasks.${status}`)}
            </Text>
          </Group>
        ))}
    </Group>
  );
}

interface View {
  step: StepGrid;
  columns: number;
  width: number;
  height: number;
  top: number;
  scheme: "dark" | "light";
  chosen: Range | undefined;
}

function paintRows(context: CanvasRenderingContext2D, view: View): void {
  const { step, columns, height, top, scheme, chosen } = view;
  const scale = window.devicePixelRatio || 1;
  const { canvas } = context;
  const [w, h] = [Math.round(columns * CELL * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = scheme === "dark" ? "#262626" : "#ffffff";
  context.fillRect(0, 0, columns * CELL, height);
  const first = Math.floor(top / CELL) * columns;
  const last = Math.min(step.count, (Math.ceil((top + height) / CELL) + 1) * columns);
  const side = CELL - GAP;
  for (let index = first; index < last; index += 1) {
    const status = statusAt(step, index);
    if (!status) continue;
    const x = (index % columns) * CELL;
    const y = Math.floor(index / columns) * CELL - top + GAP / 2;
    const look = COLOURS[status];
    context.fillStyle = look[scheme];
    context.fillRect(x, y, side, side);
    if (look.mark) paintMark(context, look.mark, x, y, side);
    if (chosen && index >= chosen.from && index <= chosen.to) {
      context.strokeStyle = scheme === "dark" ? "#ffffff" : "#000000";
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, side - 2, side - 2);
    }
  }
}

function paintMark(context: CanvasRenderingContext2D, mark: "cross" | "dot", x: number, y: number, side: number): void {
  context.strokeStyle = context.fillStyle = "#ffffff";
  context.lineWidth = 1.5;
  context.beginPath();
  if (mark === "dot") {
    context.arc(x + side / 2, y + side / 2, 2, 0, 2 * Math.PI);
    context.fill();
    return;
  }
  context.moveTo(x + 3.5, y + 3.5);
  context.lineTo(x + side - 3.5, y + side - 3.5);
  context.moveTo(x + side - 3.5, y + 3.5);
  context.lineTo(x + 3.5, y + side - 3.5);
  context.stroke();
}
