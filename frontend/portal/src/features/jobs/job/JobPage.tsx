import { Alert, Button, Code, CopyButton, Group, SimpleGrid, Stack, Tabs, Text, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, once, type Schema } from "@/api/client";
import { duration, money, number } from "@/app/format";
import { useMay } from "@/app/me";
import { confirm, Failure, useTell, Waiting } from "@/app/states";
import { StateBadge, TaskBar } from "../marks";
import { Cost } from "./Cost";
import { FrameGrid, type Range } from "./FrameGrid";
import { Movie } from "./Movie";
import { Panel } from "./Panel";
import { type JobSearch, TABS } from "./search";
import { type Live, useGrid } from "./useGrid";

/** One job: what it does or waits for, all its frames, its movie, its cost. */
export function JobPage() {
  const { t } = useTranslation("jobs");
  const { jobId } = useParams({ from: "/inside/jobs/$jobId" });
  const search = useSearch({ from: "/inside/jobs/$jobId" });
  const navigate = useNavigate();
  const live = useGrid(jobId);
  if (live.error) return <Failure error={live.error} again={live.again} />;
  if (!live.job || !live.grid) return <Waiting />;
  const go = (change: JobSearch, replace = true) =>
    void navigate({ to: "/jobs/$jobId", params: { jobId }, search: { ...search, ...change }, replace });
  const tab = search.tab ?? "frames";
  return (
    <Stack>
      <Head job={live.job} />
      <Tabs value={tab} onChange={(next) => go({ tab: TABS.find((each) => each === next) }, false)} keepMounted={false}>
        <Tabs.List mb="md">
          {TABS.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {t(name)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="frames">
          <Frames live={live} job={live.job} search={search} go={go} />
        </Tabs.Panel>
        <Tabs.Panel value="movie">
          <Movie jobId={jobId} />
        </Tabs.Panel>
        <Tabs.Panel value="cost">
          <Cost job={live.job} />
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

interface FramesProps {
  live: Live;
  job: Schema["Job"];
  search: JobSearch;
  go: (change: JobSearch) => void;
}

function Frames({ live, job, search, go }: FramesProps) {
  const shown = search.step ?? 0;
  const range = search.from === undefined ? undefined : { from: search.from, to: search.to ?? search.from };
  const chosen = live.grid?.steps.find((step) => step.index === shown);
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
      <Stack>
        {live.grid?.steps.map((step) => (
          <div key={step.id}>
            {(live.grid?.steps.length ?? 0) > 1 && (
              <Title order={2} size="h5" mb={4}>
                {step.name}
              </Title>
            )}
            <FrameGrid
              step={step}
              version={live.version}
              chosen={step.index === shown ? range : undefined}
              choose={(next: Range | undefined) => go({ step: step.index, from: next?.from, to: next?.to })}
            />
          </div>
        ))}
      </Stack>
      {chosen && <Panel job={job} step={chosen} range={range} version={live.version} />}
    </SimpleGrid>
  );
}

function Head({ job }: { job: Schema["Job"] }) {
  const { t } = useTranslation("jobs");
  const path = { path: { job_id: job.id } };
  const why = api.useQuery(
    "get",
    "/api/v1/jobs/{job_id}/why",
    { params: path },
    { refetchInterval: job.status === "active" ? 3_000 : 15_000 },
  );
  return (
    <Stack gap="xs">
      <Group justify="space-between" align="flex-start">
        <div>
          <Group gap="sm">
            <Title order={1} size="h3">
              {job.name}
            </Title>
            <StateBadge state={job.state} />
          </Group>
          <Text c="dimmed" size="sm">
            {[job.project_name, job.sequence, job.shot, job.artist_name].filter(Boolean).join(" · ")}
          </Text>
        </div>
        <Acts job={job} />
      </Group>
      <Text aria-live="polite">{why.data?.sentence}</Text>
      <TaskBar counts={job.tasks} />
      {job.status === "suspended" && job.suspended_by === "approval" && <Approval job={job} />}
      <CopyButton value={`farmhand job pull ${job.id} frames/`}>
        {({ copied, copy }) => (
          <Group gap="xs">
            <Text size="xs" c="dimmed">
              {t("pull")}:
            </Text>
            <Code>farmhand job pull {job.id.slice(0, 13)} frames/</Code>
            <Button size="compact-xs" variant="subtle" onClick={copy}>
              {copied ? t("copied") : t("copy")}
            </Button>
          </Group>
        )}
      </CopyButton>
    </Stack>
  );
}

function Approval({ job }: { job: Schema["Job"] }) {
  const { t } = useTranslation("jobs");
  const quotes = api.useQuery("get", "/api/v1/jobs/{job_id}/quotes", { params: { path: { job_id: job.id } } });
  return (
    <Alert title={t("approval")} color="yellow">
      {(quotes.data ?? []).map((quote) => (
        <Text key={quote.worker_class} size="sm">
          {t("quote", {
            on: quote.worker_class,
            low: money(quote.p10_micro, quote.currency),
            high: money(quote.p90_micro, quote.currency),
            fast: duration(quote.p10_s),
            slow: duration(quote.p90_s),
            tasks: number(quote.tasks),
          })}
        </Text>
      ))}
    </Alert>
  );
}

function Acts({ job }: { job: Schema["Job"] }) {
  const { t } = useTranslation("jobs");
  const { t: core } = useTranslation();
  const may = useMay("jobs:write");
  const known = useQueryClient();
  const settled = { onSuccess: () => void known.invalidateQueries(), onError: useTell() };
  const suspend = api.useMutation("post", "/api/v1/jobs/{job_id}/suspend", settled);
  const resume = api.useMutation("post", "/api/v1/jobs/{job_id}/resume", settled);
  const cancel = api.useMutation("post", "/api/v1/jobs/{job_id}/cancel", settled);
  const retry = api.useMutation("post", "/api/v1/jobs/{job_id}/retry", settled);
  const asked = { params: { path: { job_id: job.id }, header: once() } };
  if (!may) return null;
  return (
    <Group gap="xs">
      {job.tasks.failed > 0 && job.status !== "cancelled" && (
        <Button variant="default" onClick={() => retry.mutate({ ...asked, body: { which: "failed" } })}>
          {t("renderFailed")}
        </Button>
      )}
      {job.status === "active" && (
        <Button variant="default" loading={suspend.isPending} onClick={() => suspend.mutate(asked)}>
          {t("suspend")}
        </Button>
      )}
      {job.status === "suspended" && (
        <Button loading={resume.isPending} onClick={() => resume.mutate(asked)}>
          {job.suspended_by === "approval" ? t("continue") : t("resume")}
        </Button>
      )}
      {(job.status === "active" || job.status === "suspended") && (
        <Button
          variant="light"
          color="red"
          onClick={() =>
            confirm(
              {
                title: t("cancelJobs", { count: 1 }),
                children: t("cancelText"),
                act: t("cancel"),
                cancel: core("cancel"),
              },
              () => cancel.mutate(asked),
            )
          }
        >
          {t("cancel")}
        </Button>
      )}
    </Group>
  );
}
