/** What an order will cost, before anything is rendered: a wide range, and what it rests on. */
import { Badge, Divider, Group, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { duration, money } from "@/app/format";

type Row = Schema["EstimateRow"];

/** A row with a price. */
export type Priced = Row & {
  p50_micro: number;
  p10_micro: number;
  p90_micro: number;
  p10_s: number;
  p50_s: number;
  p90_s: number;
};

export const isPriced = (row: Row): row is Priced => row.p50_micro !== null && row.p50_s !== null;

/** The rows of the chosen fleet, or of all; those that are likely cheapest first. */
export function rowsFor(estimate: Schema["Estimate"] | undefined, fleet: string): Priced[] {
  const rows = (estimate?.results ?? []).filter(isPriced);
  return rows.filter((row) => !fleet || row.fleet === fleet).sort((a, b) => a.p50_micro - b.p50_micro);
}

export function Quote({ estimate, fleet }: { estimate: Schema["Estimate"] | undefined; fleet: string }) {
  const { t } = useTranslation("newJob");
  const rows = rowsFor(estimate, fleet);
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Title order={3} size="h6">
          {t("quote")}
        </Title>
        {rows.length > 0 && (
          <Badge size="sm" variant="light" color="yellow" tt="none">
            {t("quoteWide")}
          </Badge>
        )}
      </Group>
      {rows.map((row, nth) => (
        <div key={`${row.fleet} ${row.worker_class}`}>
          {nth > 0 && <Divider mb="xs" />}
          <Range row={row} currency={estimate?.currency ?? "USD"} isNamed={rows.length > 1} />
        </div>
      ))}
      {rows.length === 0 && (
        <Text size="sm" c="dimmed">
          {estimate ? t("quoteUnpriced") : t("quoteNone")}
        </Text>
      )}
    </Stack>
  );
}

function Range({ row, currency, isNamed }: { row: Priced; currency: string; isNamed: boolean }) {
  const { t } = useTranslation("newJob");
  return (
    <Stack gap={2}>
      {isNamed && (
        <Text size="xs" c="dimmed">
          {row.fleet} · {row.worker_class === "cpu" ? t("cpu") : row.worker_class}
        </Text>
      )}
      <Text fw={600}>
        {t("quoteMoney", { low: money(row.p10_micro, currency), high: money(row.p90_micro, currency) })}
      </Text>
      <Text size="sm">
        {t("quoteTime", { fast: duration(row.p10_s), slow: duration(row.p90_s) })}
        {", "}
        {t("quoteSlots", { count: row.slots })}
      </Text>
      <Text size="sm">{t("quoteLikely", { price: money(row.p50_micro, currency), time: duration(row.p50_s) })}</Text>
      <Text size="xs" c="dimmed">
        {t(`basis.${row.basis}`, { count: row.frames })}
      </Text>
    </Stack>
  );
}
