/** What is done to several jobs at once; each act says how many it is for, and what can be undone can be undone. */
import { Button, Group, List, NumberInput, Paper, Popover, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, once, type Schema } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { confirm, useSentence, useTell } from "@/app/states";
import type { Job } from "./useJobs";

type Act = Schema["ActEnum"];

// To which jobs an act means something.
const FITS: Record<Act, (job: Job) => boolean> = {
  suspend: ({ status }) => status === "active",
  resume: ({ status }) => status === "suspended",
  cancel: ({ status }) => status === "active" || status === "suspended",
  priority: ({ status }) => status === "active" || status === "suspended",
};
const UNDO: Partial<Record<Act, Act>> = { suspend: "resume", resume: "suspend" };

export function Bulk({ jobs, clear }: { jobs: Job[]; clear: () => void }) {
  const { t } = useTranslation("jobs");
  const { t: core } = useTranslation();
  const { act, isPending } = useActs(jobs);
  if (jobs.length === 0) return null;
  const fitting = (name: Act) => jobs.filter(FITS[name]);
  const stop = () =>
    confirm(
      {
        title: t("cancelJobs", { count: fitting("cancel").length }),
        children: <WhatStops jobs={fitting("cancel")} />,
        act: t("cancel"),
        cancel: core("cancel"),
      },
      () => act("cancel", fitting("cancel")),
    );
  return (
    <Paper withBorder shadow="md" p="xs" pos="sticky" bottom={12} style={{ zIndex: 3 }}>
      <Group gap="xs" role="toolbar" aria-label={t("chosen", { count: jobs.length })}>
        <Text size="sm" fw={500} role="status">
          {t("chosen", { count: jobs.length })}
        </Text>
        {(["suspend", "resume"] as const).map((name) => (
          <Button
            key={name}
            size="compact-sm"
            variant="default"
            disabled={fitting(name).length === 0 || isPending}
            onClick={() => act(name, fitting(name))}
          >
            {t("list.actCount", { act: t(name), count: fitting(name).length })}
          </Button>
        ))}
        <Priority jobs={fitting("priority")} set={(priority) => act("priority", fitting("priority"), priority)} />
        <Button
          size="compact-sm"
          variant="light"
          color="red"
          disabled={fitting("cancel").length === 0 || isPending}
          onClick={stop}
        >
          {t("list.actCount", { act: t("cancel"), count: fitting("cancel").length })}
        </Button>
        <Button size="compact-sm" variant="subtle" color="gray" onClick={clear}>
          {t("list.chooseNone")}
        </Button>
      </Group>
    </Paper>
  );
}

const NAMED = 5;

function WhatStops({ jobs }: { jobs: Job[] }) {
  const { t } = useTranslation("jobs");
  const running = jobs.reduce((sum, job) => sum + job.tasks.leased, 0);
  return (
    <>
      {t("cancelText")} {running > 0 && t("list.runningNow", { count: running })}
      <List size="sm" mt="xs" component="ul">
        {jobs.slice(0, NAMED).map((job) => (
          <List.Item key={job.id}>{job.name}</List.Item>
        ))}
        {jobs.length > NAMED && <List.Item>{t("list.andMore", { count: jobs.length - NAMED })}</List.Item>}
      </List>
    </>
  );
}

function Priority({ jobs, set }: { jobs: Job[]; set: (priority: number) => void }) {
  const { t } = useTranslation("jobs");
  const { t: core } = useTranslation();
  const [isOpen, { toggle, close }] = useDisclosure();
  const [value, setValue] = useState<number | string>(50);
  return (
    <Popover opened={isOpen} onChange={close} position="top" shadow="md" trapFocus withinPortal={false}>
      <Popover.Target>
        <Button size="compact-sm" variant="default" disabled={jobs.length === 0} onClick={toggle}>
          {t("list.actCount", { act: t("priority"), count: jobs.length })}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            close();
            set(Number(value));
          }}
        >
          <Stack gap="xs">
            <NumberInput
              size="xs"
              label={t("priority")}
              description={t("list.priorityHint")}
              min={0}
              max={100}
              required
              value={value}
              onChange={setValue}
            />
            <Button size="xs" type="submit" disabled={value === ""}>
              {core("save")}
            </Button>
          </Stack>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}

/** Do it, then say what was done, what was not and why, and how to take it back. */
function useActs(jobs: Job[]) {
  const { t } = useTranslation("jobs");
  const known = useQueryClient();
  const sentence = useSentence();
  const tell = useTell();
  const bulk = api.useMutation("post", "/api/v1/jobs/bulk");
  const names = new Map(jobs.map((job) => [job.id, job.name]));
  const act = (name: Act, on: Job[], priority?: number) =>
    run(
      name,
      on.map(({ id }) => id),
      priority,
    );
  const run = (name: Act, ids: string[], priority?: number) =>
    bulk.mutate(
      { params: { header: once() }, body: { jobs: ids, act: name, ...(priority === undefined ? {} : { priority }) } },
      {
        onError: tell,
        onSuccess: ({ results }) => {
          void known.invalidateQueries({ queryKey: ["jobs"] });
          const done = results.filter((result) => result.is_done).map((result) => result.job);
          if (done.length) say(name, done);
          for (const { job, problem } of results) if (problem) sayWhyNot(names.get(job) ?? job, problem);
        },
      },
    );
  const say = (name: Act, done: string[]) => {
    const back = UNDO[name];
    const id = notifications.show({
      message: (
        <Group gap="sm">
          <Text size="sm">{t(`list.did.${name}`, { count: done.length })}</Text>
          {back && (
            <Button
              size="compact-xs"
              variant="light"
              onClick={() => {
                notifications.hide(id);
                run(back, done);
              }}
            >
              {t("list.undo")}
            </Button>
          )}
        </Group>
      ),
      autoClose: back ? 12_000 : 5_000,
    });
  };
  const sayWhyNot = (name: string, problem: Schema["BulkProblem"]) =>
    notifications.show({
      color: "red",
      title: t("list.notDone", { name }),
      message: sentence(new Refusal({ ...problem, status: 409 })),
      autoClose: 12_000,
    });
  return { act, isPending: bulk.isPending };
}
