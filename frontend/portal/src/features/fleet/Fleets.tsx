/** Each fleet: what runs, boots and drains of what it may have, and whether it launches. */
import { Badge, Button, Card, Group, Progress, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { moneyAbout, number } from "@/app/format";
import { useMe } from "@/app/me";
import { confirm, Empty, Failure, useTell, Waiting } from "@/app/states";
import { type Fleet, useFleets } from "./reading";

export function Fleets() {
  const { t } = useTranslation("fleet");
  const fleets = useFleets();
  if (fleets.error && !fleets.data) return <Failure error={fleets.error} again={() => void fleets.refetch()} />;
  if (!fleets.data) return <Waiting />;
  if (fleets.data.results.length === 0) return <Empty title={t("noFleets")}>{t("noFleetsText")}</Empty>;
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      {fleets.data.results.map((fleet) => (
        <OneFleet key={fleet.id} fleet={fleet} again={() => void fleets.refetch()} />
      ))}
    </SimpleGrid>
  );
}

function OneFleet({ fleet, again }: { fleet: Fleet; again: () => void }) {
  const { t } = useTranslation("fleet");
  const { starting, ready, draining, own, others, nobody } = fleet.machines;
  const count = starting + ready + draining;
  const most = fleet.max_machines ?? 0;
  const share = (part: number) => (most ? (100 * part) / Math.max(most, count) : 0);
  const said = t("ofMost", { count, most: number(most) });
  const kinds = [...(fleet.gpu_models ?? []), ...(fleet.instance_types ?? [])].join(", ");
  return (
    <Card withBorder component="section" aria-label={fleet.name}>
      <Stack gap="xs">
        <Group justify="space-between" wrap="nowrap">
          <Group gap="xs">
            <Title order={2} size="h4">
              {fleet.name}
            </Title>
            {fleet.is_paused && (
              <Badge color="yellow" variant="dot" tt="none">
                {t("paused")}
              </Badge>
            )}
            {!fleet.may_use && (
              <Badge color="gray" variant="dot" tt="none">
                {t("mayNotUse")}
              </Badge>
            )}
          </Group>
          <PauseOrResume fleet={fleet} count={count} again={again} />
        </Group>
        <Text size="sm" c="dimmed">
          {[fleet.provider, fleet.region, t(`markets.${fleet.market ?? "spot"}`), kinds].filter(Boolean).join(" · ")}
        </Text>
        <Progress.Root size="lg">
          <Progress.Section value={share(ready)} color="teal" aria-label={t("running", { count: ready })} />
          <Progress.Section value={share(starting)} color="blue" aria-label={t("starting", { count: starting })} />
          <Progress.Section value={share(draining)} color="yellow" aria-label={t("draining", { count: draining })} />
        </Progress.Root>
        <Text size="sm">{said}</Text>
        <Group gap="md">
          <Text size="sm">{t("running", { count: ready })}</Text>
          <Text size="sm">{t("starting", { count: starting })}</Text>
          <Text size="sm">{t("draining", { count: draining })}</Text>
        </Group>
        <Text size="sm" c="dimmed">
          {t("whose", { own: number(own), others: number(others), nobody: number(nobody) })}
        </Text>
        {fleet.micro_per_hour !== null && (
          <Text size="sm" c="dimmed">
            {t("perHour", { amount: moneyAbout(fleet.micro_per_hour, "USD") })}
          </Text>
        )}
      </Stack>
    </Card>
  );
}

/** Operators stop and start launching; each is told first what it will do. */
function PauseOrResume({ fleet, count, again }: { fleet: Fleet; count: number; again: () => void }) {
  const { t } = useTranslation("fleet");
  const { t: core } = useTranslation();
  const tell = useTell();
  const isOperator = useMe()?.is_operator ?? false;
  const pause = api.useMutation("post", "/api/v1/fleets/{fleet_id}/pause", { onSuccess: again, onError: tell });
  const resume = api.useMutation("post", "/api/v1/fleets/{fleet_id}/resume", { onSuccess: again, onError: tell });
  if (!isOperator) return null;
  const params = { path: { fleet_id: fleet.id } };
  const { name, max_machines: most = 0 } = fleet;
  const ask = fleet.is_paused
    ? { title: t("resumeTitle", { name }), children: t("resumeText", { count: most }), act: t("resume") }
    : { title: t("pauseTitle", { name }), children: t("pauseText", { count }), act: t("pause") };
  const act = fleet.is_paused ? resume : pause;
  return (
    <Button
      variant="default"
      size="xs"
      loading={act.isPending}
      onClick={() => confirm({ ...ask, cancel: core("cancel") }, () => act.mutate({ params }))}
    >
      {ask.act}
    </Button>
  );
}
