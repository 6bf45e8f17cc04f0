/** The list itself: a table of which only the rows on the screen exist. */
import { Table } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useTable } from "@tanstack/react-table";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import { useMay } from "@/app/me";
import { columns, features, NARROW, WIDTHS } from "./columns";
import classes from "./Rows.module.css";
import type { Row } from "./useJobs";

export type Chosen = Record<string, true>;

interface Props {
  rows: Row[];
  chosen: Chosen;
  choose: (change: (chosen: Chosen) => Chosen) => void;
  more: (() => void) | undefined; // asks for the rows after the last
}

const ROW_PX = 58;
const AHEAD = 8; // rows kept beyond the screen's edge

export function Rows({ rows, chosen, choose, more }: Props) {
  const may = useMay("jobs:write");
  const shown = useColumns(may);
  const table = useTable({
    features,
    columns,
    data: rows,
    getRowId: (row) => row.job.id,
    state: { rowSelection: chosen, columnVisibility: shown },
    onRowSelectionChange: (change) => choose(typeof change === "function" ? change : () => change),
  });
  const all = table.getRowModel().rows;
  const body = useRef<HTMLTableSectionElement>(null);
  const window = useWindowVirtualizer({
    count: all.length,
    estimateSize: () => ROW_PX,
    overscan: AHEAD,
    scrollMargin: body.current?.offsetTop ?? 0,
    getItemKey: (index) => all[index]?.id ?? index,
  });
  const items = window.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= all.length - AHEAD) more();
  }, [more, last, all.length]);
  const above = (items[0]?.start ?? window.options.scrollMargin) - window.options.scrollMargin;
  const below = window.getTotalSize() - (items.at(-1)?.end ?? 0) + window.options.scrollMargin;
  return (
    <Table className={classes.table} layout="fixed" verticalSpacing="xs" aria-rowcount={more ? -1 : all.length + 1}>
      <Table.Thead className={classes.head}>
        {table.getHeaderGroups().map((group) => (
          <Table.Tr key={group.id}>
            {group.headers.map((header) => (
              <Table.Th key={header.id} w={WIDTHS[header.id]} scope="col">
                <table.FlexRender header={header} />
              </Table.Th>
            ))}
          </Table.Tr>
        ))}
      </Table.Thead>
      <Table.Tbody ref={body}>
        <Space height={above} />
        {items.map(({ index, key }) => {
          const row = all[index];
          if (!row) return null;
          return (
            <Table.Tr
              key={key}
              data-index={index}
              ref={window.measureElement}
              aria-rowindex={index + 2}
              className={classes.row}
              data-chosen={row.getIsSelected() || undefined}
            >
              {row.getVisibleCells().map((cell) => (
                <Table.Td key={cell.id}>
                  <table.FlexRender cell={cell} />
                </Table.Td>
              ))}
            </Table.Tr>
          );
        })}
        <Space height={below} />
      </Table.Tbody>
    </Table>
  );
}

/** Where rows would be that nobody sees. */
function Space({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    <tr aria-hidden style={{ height }}>
      <td />
    </tr>
  );
}

/** Which columns there is room for: a phone has one that says all. */
function useColumns(may: boolean): Record<string, boolean> {
  const isPhone = useMediaQuery("(max-width: 48em)") ?? false;
  const isWide = useMediaQuery("(min-width: 75em)") ?? true;
  return useMemo(
    () =>
      Object.fromEntries(
        columns.map(({ id = "" }) => {
          if (id === "choose") return [id, may];
          if (id === NARROW) return [id, isPhone];
          return [id, !isPhone && (isWide || !["priority", "submitted"].includes(id))];
        }),
      ),
    [may, isPhone, isWide],
  );
}
