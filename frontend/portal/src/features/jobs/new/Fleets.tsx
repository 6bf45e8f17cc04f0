/** Where an order may run, with price and speed; the farm chooses unless a person does. */
import { Badge, Group, Radio, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { money, number } from "@/app/format";
import { useMe } from "@/app/me";

type Row = Schema["EstimateRow"];

interface Props {
  chosen: string;
  choose: (fleet: string) => void;
  estimate: Schema["Estimate"] | undefined;
  error: string | undefined;
}

export function Fleets({ chosen, choose, estimate, error }: Props) {
  const { t } = useTranslation("newJob");
  const fleets = api.useQuery("get", "/api/v1/fleets", { params: { query: { limit: 200 } } }, { staleTime: 15_000 });
  const shown = (fleets.data?.results ?? []).filter(({ may_use, purposes }) => may_use && purposes.includes("render"));
  const rowsOf = (name: string) => estimate?.results.filter(({ fleet }) => fleet === name) ?? [];
  return (
    <Radio.Group aria-label={t("where")} value={chosen} onChange={choose} error={error}>
      <Stack gap="xs">
        <Radio.Card value="" p="sm">
          <Group wrap="nowrap" gap="sm">
            <Radio.Indicator />
            <div>
              <Text size="sm" fw={500}>
                {t("anyFleet")}
              </Text>
              <Text size="xs" c="dimmed">
                {t("anyFleetHint")}
              </Text>
            </div>
          </Group>
        </Radio.Card>
        {shown.map((fleet) => (
          <Card key={fleet.id} fleet={fleet} rows={rowsOf(fleet.name)} isKnown={estimate !== undefined} />
        ))}
      </Stack>
    </Radio.Group>
  );
}

function Card({ fleet, rows, isKnown }: { fleet: Schema["Fleet"]; rows: Row[]; isKnown: boolean }) {
  const { t } = useTranslation("newJob");
  const cannot = isKnown && rows.length === 0;
  const { ready } = fleet.machines;
  const isBought = fleet.provider !== "local";
  return (
    <Radio.Card value={fleet.name} p="sm" disabled={cannot} opacity={cannot ? 0.6 : 1}>
      <Group wrap="nowrap" gap="sm" align="flex-start">
        <Radio.Indicator disabled={cannot} mt={2} />
        <Stack gap={2} flex={1} miw={0}>
          <Group gap="xs">
            <Text size="sm" fw={500}>
              {fleet.name}
            </Text>
            {isBought && (
              <Badge size="sm" variant="default" tt="none">
                {t(`markets.${fleet.market}`)}
              </Badge>
            )}
            {fleet.is_paused && (
              <Badge size="sm" color="yellow" variant="light" tt="none">
                {t("fleetPaused")}
              </Badge>
            )}
          </Group>
          {rows.map((row) => (
            <Text key={row.worker_class} size="sm">
              <WorkerClass row={row} />
            </Text>
          ))}
          <Text size="xs" c="dimmed">
            {cannot ? t("fleetCannot") : ready > 0 ? t("fleetReady", { count: ready }) : t("fleetStarts")}
          </Text>
        </Stack>
      </Group>
    </Radio.Card>
  );
}

/** A class of worker with its price and, where somebody measured it, its speed. */
function WorkerClass({ row: { worker_class, micro_per_gpu_hour } }: { row: Row }) {
  const { t } = useTranslation("newJob");
  const currency = useMe()?.currency ?? "USD";
  const catalogue = api.useQuery("get", "/api/v1/catalogue", {}, { staleTime: 3_600_000 });
  const speed = catalogue.data?.gpus.find(({ model }) => model === worker_class)?.speed;
  const isCpu = worker_class === "cpu";
  const price =
    micro_per_gpu_hour === null
      ? t("noRate")
      : t(isCpu ? "perHour" : "perGpuHour", { price: money(micro_per_gpu_hour, currency) });
  const times = speed ? t("speed", { times: number(Math.round(speed * 10) / 10) }) : "";
  return [isCpu ? t("cpu") : worker_class, price, times].filter(Boolean).join(" · ");
}
