import {
  Anchor,
  Badge,
  Box,
  Button,
  Checkbox,
  Chip,
  Group,
  Progress,
  Select,
  Stack,
  Table,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, farm, once, type Schema } from "@/api/client";
import { number, Time } from "@/app/format";
import { useMay } from "@/app/me";
import { confirm, Empty, Failure, useTell, Waiting } from "@/app/states";
import { total } from "./counts";
import { type JobsSearch, SORTS, STATE_COLOUR, type State } from "./search";

type Job = Schema["Job"];
const PAGE = 50;
const EVERY_MS = 3_000;

/** The studio's jobs: what is under way, what is done, what wants attention. */
export function JobsPage() {
  const { t } = useTranslation("jobs");
  const { t: core } = useTranslation();
  const search = useSearch({ from: "/inside/jobs" });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const jobs = useInfiniteQuery({
    queryKey: ["jobs", search],
    queryFn: async ({ pageParam }) => {
      const query = {
        limit: PAGE,
        ...(search.state ? { state: search.state.join(",") } : {}),
        ...(search.name ? { name: search.name } : {}),
        ...(search.sort ? { sort: search.sort } : {}),
        ...(pageParam ? { cursor: pageParam } : {}),
      };
      const { data } = await farm.GET("/api/v1/jobs", { params: { query } });
      if (!data) throw new Error("an answer without rows");
      return data;
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    refetchInterval: EVERY_MS,
  });
  const rows = jobs.data?.pages.flatMap((page) => page.results) ?? [];
  const isFiltered = Boolean(search.state || search.name);
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1} size="h3">
          {core("jobs")}
        </Title>
        <Button component={Link} to="/new">
          {core("newJob")}
        </Button>
      </Group>
      <Filters search={search} />
      <BulkActs jobs={rows.filter((job) => chosen.has(job.id))} done={() => setChosen(new Set())} />
      {jobs.error && <Failure error={jobs.error} again={() => void jobs.refetch()} />}
      {jobs.isPending && <Waiting />}
      {jobs.data && rows.length === 0 && (
        <Empty
          title={isFiltered ? t("noneMatch") : t("none")}
          action={
            !isFiltered && (
              <Button component={Link} to="/new">
                {t("first")}
              </Button>
            )
          }
        >
          {isFiltered ? t("noneMatchText") : t("noneText")}
        </Empty>
      )}
      {rows.length > 0 && <Rows jobs={rows} chosen={chosen} choose={setChosen} />}
      {jobs.hasNextPage && (
        <Button variant="default" loading={jobs.isFetchingNextPage} onClick={() => void jobs.fetchNextPage()}>
          {t("more")}
        </Button>
      )}
    </Stack>
  );
}

function Filters({ search }: { search: JobsSearch }) {
  const { t } = useTranslation("jobs");
  const navigate = useNavigate();
  const go = (change: Partial<JobsSearch>) =>
    void navigate({ to: "/jobs", search: { ...search, ...change }, replace: true });
  const find = useDebouncedCallback((name: string) => go({ name: name || undefined }), 250);
  return (
    <Group gap="sm">
      <Chip.Group multiple value={search.state ?? []} onChange={(state) => go({ state: state as State[] })}>
        <Group gap={6}>
          {(Object.keys(STATE_COLOUR) as State[]).map((state) => (
            <Chip key={state} value={state} size="xs" variant="light">
              {t(`states.${state}`)}
            </Chip>
          ))}
        </Group>
      </Chip.Group>
      <TextInput
        size="xs"
        placeholder={t("find")}
        aria-label={t("find")}
        defaultValue={search.name ?? ""}
        onChange={(event) => find(event.currentTarget.value)}
      />
      <Select
        size="xs"
        w={170}
        aria-label={t("sort")}
        data={SORTS.map((sort) => ({ value: sort, label: t(`sorts.${sort}`) }))}
        value={search.sort ?? "-created"}
        allowDeselect={false}
        onChange={(sort) => go({ sort: SORTS.find((each) => each === sort) })}
      />
    </Group>
  );
}

function BulkActs({ jobs, done }: { jobs: Job[]; done: () => void }) {
  const { t } = useTranslation("jobs");
  const { t: core } = useTranslation();
  const known = useQueryClient();
  const tell = useTell();
  const bulk = api.useMutation("post", "/api/v1/jobs/bulk", {
    onSuccess: ({ results }) => {
      for (const result of results.filter((each) => each.problem))
        notifications.show({ color: "red", title: t("notDone"), message: result.problem?.detail });
      void known.invalidateQueries({ queryKey: ["jobs"] });
      done();
    },
    onError: tell,
  });
  if (jobs.length === 0) return null;
  const act = (name: "suspend" | "resume" | "cancel") =>
    bulk.mutate({ params: { header: once() }, body: { jobs: jobs.map((job) => job.id), act: name } });
  return (
    <Group gap="xs" role="toolbar" aria-label={t("chosen", { count: jobs.length })}>
      <Text size="sm">{t("chosen", { count: jobs.length })}</Text>
      <Button size="compact-sm" variant="default" onClick={() => act("suspend")}>
        {t("suspend")}
      </Button>
      <Button size="compact-sm" variant="default" onClick={() => act("resume")}>
        {t("resume")}
      </Button>
      <Button
        size="compact-sm"
        variant="light"
        color="red"
        onClick={() =>
          confirm(
            {
              title: t("cancelJobs", { count: jobs.length }),
              children: t("cancelText"),
              act: t("cancel"),
              cancel: core("cancel"),
            },
            () => act("cancel"),
          )
        }
      >
        {t("cancel")}
      </Button>
    </Group>
  );
}

interface Choosing {
  jobs: Job[];
  chosen: ReadonlySet<string>;
  choose: (chosen: ReadonlySet<string>) => void;
}

function Rows({ jobs, chosen, choose }: Choosing) {
  const { t } = useTranslation("jobs");
  const may = useMay("jobs:write");
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table verticalSpacing="xs" highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            {may && (
              <Table.Th w={32}>
                <Checkbox
                  size="xs"
                  aria-label={t("chooseAll")}
                  checked={chosen.size > 0 && jobs.every((job) => chosen.has(job.id))}
                  indeterminate={chosen.size > 0 && !jobs.every((job) => chosen.has(job.id))}
                  onChange={(event) => choose(new Set(event.currentTarget.checked ? jobs.map((job) => job.id) : []))}
                />
              </Table.Th>
            )}
            <Table.Th>{t("name")}</Table.Th>
            <Table.Th>{t("state")}</Table.Th>
            <Table.Th miw={160}>{t("progress")}</Table.Th>
            <Table.Th>{t("priority")}</Table.Th>
            <Table.Th>{t("submitted")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {jobs.map((job) => (
            <Table.Tr key={job.id} bg={chosen.has(job.id) ? "var(--mantine-primary-color-light)" : undefined}>
              {may && (
                <Table.Td>
                  <Checkbox
                    size="xs"
                    aria-label={t("choose", { name: job.name })}
                    checked={chosen.has(job.id)}
                    onChange={() => toggle(job.id)}
                  />
                </Table.Td>
              )}
              <Table.Td>
                <Anchor
                  fw={500}
                  size="sm"
                  renderRoot={(props) => <Link to="/jobs/$jobId" params={{ jobId: job.id }} {...props} />}
                >
                  {job.name}
                </Anchor>
                <Text size="xs" c="dimmed">
                  {[job.project_name, job.sequence, job.shot, job.artist_name].filter(Boolean).join(" · ")}
                </Text>
              </Table.Td>
              <Table.Td>
                <StateBadge state={job.state} />
              </Table.Td>
              <Table.Td>
                <TaskBar counts={job.tasks} />
              </Table.Td>
              <Table.Td>{job.priority}</Table.Td>
              <Table.Td>
                <Time at={job.created_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

export function StateBadge({ state }: { state: State }) {
  const { t } = useTranslation("jobs");
  return (
    <Badge color={STATE_COLOUR[state]} variant="light" tt="none">
      {t(`states.${state}`)}
    </Badge>
  );
}

/** How far it is, by count: done, failed, under way. */
export function TaskBar({ counts }: { counts: Schema["Counts"] }) {
  const { t } = useTranslation("jobs");
  const all = total(counts);
  const share = (count: number) => (all ? (100 * count) / all : 0);
  const said = t("doneOf", { done: number(counts.succeeded), all: number(all) });
  return (
    <Box>
      <Progress.Root size="md" aria-label={said}>
        <Progress.Section value={share(counts.succeeded)} color="teal" aria-label={said} />
        <Progress.Section value={share(counts.leased)} color="blue" aria-label={t("tasks.leased")} />
        <Progress.Section value={share(counts.failed)} color="red" aria-label={t("tasks.failed")} />
      </Progress.Root>
      <Text size="xs" c="dimmed">
        {said}
        {counts.failed > 0 && `, ${t("failedCount", { count: counts.failed })}`}
      </Text>
    </Box>
  );
}
