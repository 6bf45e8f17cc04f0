/** Each machine: its GPUs and what they do, what is wrong with it, whose work it does. */
import { Badge, Button, Checkbox, Group, Progress, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { bytes, number, Time } from "@/app/format";
import { useMe } from "@/app/me";
import { confirm, useTell } from "@/app/states";
import { Listing } from "./Listing";
import { useFleetNames, useWorkers, type Worker } from "./reading";

const MIB = 1024 * 1024;
const COLOURS: Record<Worker["status"], string> = {
  requested: "gray",
  booting: "blue",
  ready: "teal",
  draining: "yellow",
  gone: "gray",
};

export function Workers() {
  const { t } = useTranslation("fleet");
  const [withGone, showGone] = useState(false);
  const workers = useWorkers({ withGone });
  const names = useFleetNames();
  return (
    <Stack>
      <Checkbox label={t("showGone")} checked={withGone} onChange={(event) => showGone(event.currentTarget.checked)} />
      <Listing
        answer={workers}
        columns={(["machine", "state", "gpuUse", "memory", "power", "seen", "acts"] as const).map((name) => t(name))}
        minWidth={720}
        empty={{ title: t("noWorkers"), text: t("noWorkersText") }}
      >
        {(worker) => (
          <OneWorker
            key={worker.id}
            worker={worker}
            fleet={names.get(worker.fleet) ?? ""}
            again={() => void workers.refetch()}
          />
        )}
      </Listing>
    </Stack>
  );
}

function OneWorker({ worker, fleet, again }: { worker: Worker; fleet: string; again: () => void }) {
  const { t } = useTranslation("fleet");
  const place = [fleet, worker.instance_type, worker.zone, t(worker.whose)].filter(Boolean).join(" · ");
  const what = worker.gpu_model || t("cpu", { count: worker.cores ?? 0 });
  return (
    <Table.Tr>
      <Table.Td>
        <Text size="sm">{worker.registered_at ? what : worker.instance_type || t(`status.${worker.status}`)}</Text>
        <Text size="xs" c="dimmed">
          {place}
          {worker.slots > 1 && ` · ${t("slots", { count: worker.slots })}`}
        </Text>
      </Table.Td>
      <Table.Td>
        <State worker={worker} />
      </Table.Td>
      <Table.Td miw={110}>
        <Uses worker={worker} />
      </Table.Td>
      <Table.Td>
        {worker.gauges.map(({ index, gpu_memory_mib: used }) => (
          <Text key={index} size="sm">
            {used === null ? t("notTold") : `${bytes(used * MIB)} / ${bytes(worker.vram_mib * MIB)}`}
          </Text>
        ))}
      </Table.Td>
      <Table.Td>
        {worker.gauges.map(({ index, power_w: watts }) => (
          <Text key={index} size="sm">
            {watts === null ? t("notTold") : `${number(Math.round(watts))} W`}
          </Text>
        ))}
      </Table.Td>
      <Table.Td>{worker.last_seen_at && <Time at={worker.last_seen_at} seconds />}</Table.Td>
      <Table.Td>
        <Drain worker={worker} again={again} />
      </Table.Td>
    </Table.Tr>
  );
}

function State({ worker }: { worker: Worker }) {
  const { t } = useTranslation("fleet");
  return (
    <Stack gap={2} align="flex-start">
      <Group gap={4}>
        <Badge color={COLOURS[worker.status]} variant="dot" tt="none" miw="max-content">
          {t(`status.${worker.status}`)}
        </Badge>
        {worker.status === "ready" && worker.idle_since && (
          <Text size="xs" c="dimmed">
            {t("idle")}
          </Text>
        )}
      </Group>
      {worker.quarantined_at && <Text size="xs">{t("quarantined")}</Text>}
      {worker.was_taken_back && <Text size="xs">{t("takenBack")}</Text>}
      {worker.registered_at && !worker.sandboxed && <Text size="xs">{t("unsandboxed")}</Text>}
      {worker.cause && (
        <Text size="xs" c="dimmed">
          {worker.cause}
        </Text>
      )}
    </Stack>
  );
}

function Uses({ worker }: { worker: Worker }) {
  const { t } = useTranslation("fleet");
  return worker.gauges.map(({ index, gpu_use: use }) => {
    if (use === null)
      return (
        <Text key={index} size="sm">
          {t("notTold")}
        </Text>
      );
    const percent = Math.round(100 * use);
    return (
      <Group key={index} gap={6} wrap="nowrap">
        <Progress value={percent} w={60} aria-label={`${t("gpuUse")} ${index}`} />
        <Text size="sm">{`${number(percent)} %`}</Text>
      </Group>
    );
  });
}

function Drain({ worker, again }: { worker: Worker; again: () => void }) {
  const { t } = useTranslation("fleet");
  const { t: core } = useTranslation();
  const tell = useTell();
  const isOperator = useMe()?.is_operator ?? false;
  const drain = api.useMutation("post", "/api/v1/workers/{worker_id}/drain", { onSuccess: again, onError: tell });
  if (!isOperator || worker.status !== "ready") return null;
  const ask = { title: t("drainTitle"), children: t("drainText"), act: t("drain"), cancel: core("cancel") };
  return (
    <Button
      size="xs"
      variant="default"
      loading={drain.isPending}
      onClick={() => confirm(ask, () => drain.mutate({ params: { path: { worker_id: worker.id } } }))}
    >
      {t("drain")}
    </Button>
  );
}
