import { Anchor, Badge, Button, Code, Group, Image, ScrollArea, Skeleton, Stack, Text, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, farm, once, type Schema } from "@/api/client";
import { bytes, duration, Time } from "@/app/format";
import { useMay } from "@/app/me";
import { confirm, Failure, useTell, Waiting } from "@/app/states";
import type { Range } from "./FrameGrid";
import { frameAt, type StepGrid, statusAt } from "./grid";

type Status = Schema["AttemptStatusEnum"];
const ATTEMPT_COLOUR: Record<Status, string> = {
  assigned: "gray",
  started: "blue",
  succeeded: "teal",
  failed: "red",
  interrupted: "yellow",
  lost: "yellow",
  cancelled: "gray",
  superseded: "gray",
};

interface Props {
  job: Schema["Job"];
  step: StepGrid;
  range: Range | undefined;
  version: number;
}

/** What is known of the chosen frame, and what can be done with the chosen ones. */
export function Panel({ job, step, range, version }: Props) {
  const { t } = useTranslation("jobs");
  if (!range) return <Text c="dimmed">{t("nothingChosen")}</Text>;
  const count = range.to - range.from + 1;
  const frame = frameAt(step, range.to);
  const one = frame === null ? t("task", { index: range.to }) : t("frame", { frame });
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={2} size="h4">
          {count > 1 ? t("manyChosen", { count }) : one}
        </Title>
        <RenderAgain job={job} step={step} range={range} />
      </Group>
      {count > 1 && <Text size="sm">{one}</Text>}
      <OneTask key={`${step.id} ${range.to}`} job={job} step={step} index={range.to} version={version} />
    </Stack>
  );
}

function RenderAgain({ job, step, range }: { job: Schema["Job"]; step: StepGrid; range: Range }) {
  const { t } = useTranslation("jobs");
  const { t: core } = useTranslation();
  const known = useQueryClient();
  const may = useMay("jobs:write");
  const retry = api.useMutation("post", "/api/v1/jobs/{job_id}/retry", {
    onSuccess: ({ tasks }) => {
      notifications.show({ message: t("moved", { count: tasks }) });
      void known.invalidateQueries({ queryKey: ["changes", job.id] });
    },
    onError: useTell(),
  });
  if (!may) return null;
  const count = range.to - range.from + 1;
  const body = { which: "list" as const, step: step.id, indexes: `${range.from}-${range.to}` };
  return (
    <Button
      size="xs"
      variant="default"
      loading={retry.isPending}
      onClick={() =>
        confirm(
          {
            title: t("renderAgainTitle", { count }),
            children: t("renderAgainText"),
            act: t("renderAgain"),
            cancel: core("cancel"),
          },
          () => retry.mutate({ params: { path: { job_id: job.id }, header: once() }, body }),
        )
      }
    >
      {t("renderAgain")}
    </Button>
  );
}

interface OneProps {
  job: Schema["Job"];
  step: StepGrid;
  index: number;
  version: number;
}

function OneTask({ job, step, index, version }: OneProps) {
  const status = statusAt(step, index);
  const tasks = api.useQuery("get", "/api/v1/jobs/{job_id}/tasks", {
    params: { path: { job_id: job.id }, query: { step: step.id, index } },
  });
  const task = tasks.data?.results[0];
  if (tasks.error) return <Failure error={tasks.error} again={() => void tasks.refetch()} />;
  if (!task) return <Waiting />;
  return (
    <>
      <Picture jobId={job.id} taskId={task.id} seen={`${status} ${status === "leased" ? 0 : version}`} />
      <Attempts jobId={job.id} taskId={task.id} isRunning={status === "leased"} />
    </>
  );
}

function Picture({ jobId, taskId, seen }: { jobId: string; taskId: string; seen: string }) {
  const { t } = useTranslation("jobs");
  const outputs = useQuery({
    queryKey: ["outputs", taskId, seen],
    queryFn: async () =>
      (
        await farm.GET("/api/v1/jobs/{job_id}/outputs", {
          params: { path: { job_id: jobId }, query: { task: taskId } },
        })
      ).data?.results ?? [],
    placeholderData: (before) => before,
    staleTime: 20 * 60_000, // its addresses are valid for an hour
  });
  const proxy = outputs.data?.find((output) => output.role === "proxy");
  const files = outputs.data?.filter((output) => output.role === "render" || output.role === "report") ?? [];
  return (
    <Stack gap={6}>
      <div className="picture-ground">
        {proxy ? (
          <Image src={proxy.url} alt={proxy.name} fit="contain" mah={480} key={proxy.digest} />
        ) : outputs.isPending ? (
          <Skeleton h={240} />
        ) : (
          <Text ta="center" py={96} c="dimmed">
            {t("noPicture")}
          </Text>
        )}
      </div>
      {files.map((file) => (
        <Text size="sm" key={file.id}>
          <Anchor href={file.url} download={file.name} title={t("original")}>
            {file.name}
          </Anchor>{" "}
          <Text span c="dimmed" inherit>
            {[file.width && `${file.width}×${file.height}`, file.bit_depth && `${file.bit_depth} bit`, bytes(file.size)]
              .filter(Boolean)
              .join(", ")}
          </Text>
        </Text>
      ))}
    </Stack>
  );
}

function Attempts({ jobId, taskId, isRunning }: { jobId: string; taskId: string; isRunning: boolean }) {
  const { t } = useTranslation("jobs");
  const [open, setOpen] = useState<string | null>(null);
  const attempts = api.useQuery(
    "get",
    "/api/v1/jobs/{job_id}/attempts",
    { params: { path: { job_id: jobId }, query: { task: taskId } } },
    { refetchInterval: isRunning ? 2_000 : 10_000 },
  );
  if (attempts.error) return <Failure error={attempts.error} again={() => void attempts.refetch()} />;
  if (!attempts.data) return <Waiting />;
  if (attempts.data.results.length === 0) return null;
  return (
    <Stack gap="xs">
      <Title order={3} size="h5">
        {t("attemptsTitle")}
      </Title>
      {attempts.data.results.map((attempt) => (
        <Stack key={attempt.id} gap={4}>
          <Group gap="sm">
            <Badge color={ATTEMPT_COLOUR[attempt.status ?? "assigned"]} variant="light" tt="none">
              {t(`attempts.${attempt.status ?? "assigned"}`)}
            </Badge>
            <Text size="sm">
              {t("took", {
                time: duration((attempt.render_ms || attempt.elapsed_ms || 0) / 1000),
                worker: attempt.device || attempt.worker_class,
              })}
            </Text>
            <Text size="xs" c="dimmed">
              <Time at={attempt.started_at ?? attempt.claimed_at} seconds />
            </Text>
            <Button
              size="compact-xs"
              variant="subtle"
              aria-expanded={open === attempt.id}
              onClick={() => setOpen(open === attempt.id ? null : attempt.id)}
            >
              {t("log")}
            </Button>
          </Group>
          {attempt.sentence && <Text size="sm">{attempt.sentence}</Text>}
          {open === attempt.id && <Log attemptId={attempt.id} isRunning={attempt.status === "started"} />}
        </Stack>
      ))}
    </Stack>
  );
}

function Log({ attemptId, isRunning }: { attemptId: string; isRunning: boolean }) {
  const { t } = useTranslation("jobs");
  const log = useQuery({
    queryKey: ["log", attemptId],
    queryFn: async () =>
      (
        await farm.GET("/api/v1/attempts/{attempt_id}/log", {
          params: { path: { attempt_id: attemptId } },
          parseAs: "text",
        })
      ).data as string,
    refetchInterval: isRunning ? 3_000 : false,
  });
  if (log.error) return <Failure error={log.error} again={() => void log.refetch()} />;
  return (
    <ScrollArea.Autosize mah={320} type="auto">
      <Code block>{log.data || t("noLog")}</Code>
    </ScrollArea.Autosize>
  );
}
