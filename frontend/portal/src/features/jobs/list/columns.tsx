/** What a row of the list says of a job. */
import { Anchor, Checkbox, Group, Stack, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { columnVisibilityFeature, createColumnHelper, rowSelectionFeature, tableFeatures } from "@tanstack/react-table";
import { useTranslation } from "react-i18next";
import { durationAbout, moneyAbout, number, Time } from "@/app/format";
import { StateBadge, TaskBar } from "../marks";
import { expectedMicro, lateSeconds } from "./outlook";
import type { Job, Row } from "./useJobs";

/** The one column of a phone. */
export const NARROW = "all";
export const WIDTHS: Record<string, number | string> = {
  choose: 36,
  state: 116,
  progress: 200,
  cost: 150,
  priority: 72,
  deadline: 126,
  submitted: 126,
};

type Head = "name" | "state" | "progress" | "cost" | "priority" | "list.deadline" | "submitted";

function Word({ of }: { of: Head }) {
  const { t } = useTranslation("jobs");
  return t(of);
}

export const features = tableFeatures({ columnVisibilityFeature, rowSelectionFeature });
const helper = createColumnHelper<typeof features, Row>();
const column = (id: string, of: Head, Cell: (row: Row) => React.ReactNode) =>
  helper.display({ id, header: () => <Word of={of} />, cell: ({ row }) => <Cell {...row.original} /> });

export const columns = helper.columns([
  helper.display({
    id: "choose",
    header: ({ table }) => (
      <ChooseAll
        isAll={table.getIsAllRowsSelected()}
        isSome={table.getIsSomeRowsSelected()}
        toggle={table.getToggleAllRowsSelectedHandler()}
      />
    ),
    cell: ({ row }) => (
      <Choose job={row.original.job} isChosen={row.getIsSelected()} toggle={row.getToggleSelectedHandler()} />
    ),
  }),
  column("name", "name", ({ job }) => <Name job={job} />),
  column("state", "state", ({ job }) => <StateBadge state={job.state} />),
  column("progress", "progress", (row) => <Progress {...row} />),
  column("cost", "cost", (row) => <Cost {...row} />),
  column("priority", "priority", ({ job }) => <Text size="sm">{number(job.priority)}</Text>),
  column("deadline", "list.deadline", (row) => <Deadline {...row} />),
  column("submitted", "submitted", ({ job }) => (
    <Text size="sm">
      <Time at={job.created_at} />
    </Text>
  )),
  column(NARROW, "name", (row) => <Everything {...row} />),
]);

function ChooseAll({ isAll, isSome, toggle }: { isAll: boolean; isSome: boolean; toggle: (event: unknown) => void }) {
  const { t } = useTranslation("jobs");
  return (
    <Checkbox
      size="xs"
      aria-label={t("chooseAll")}
      checked={isAll}
      indeterminate={!isAll && isSome}
      onChange={toggle}
    />
  );
}

function Choose({ job, isChosen, toggle }: { job: Job; isChosen: boolean; toggle: (event: unknown) => void }) {
  const { t } = useTranslation("jobs");
  return <Checkbox size="xs" aria-label={t("choose", { name: job.name })} checked={isChosen} onChange={toggle} />;
}

function Name({ job }: { job: Job }) {
  return (
    <>
      <Anchor
        fw={500}
        size="sm"
        lineClamp={1}
        underline="hover"
        renderRoot={(props) => <Link to="/jobs/$jobId" params={{ jobId: job.id }} {...props} />}
      >
        {job.name}
      </Anchor>
      <Text size="xs" c="dimmed" truncate>
        {[job.project_name, job.sequence, job.shot, job.artist_name].filter(Boolean).join(" · ")}
      </Text>
    </>
  );
}

function Progress({ job, forecast }: Row) {
  const { t } = useTranslation("jobs");
  const left = forecast?.eta_s;
  return (
    <>
      <TaskBar counts={job.tasks} />
      {job.status === "active" && left != null && (
        <Text size="xs" c="dimmed">
          {t("list.left", { time: durationAbout(left), count: forecast?.slots ?? 0 })}
        </Text>
      )}
      {job.state === "suspended" && job.suspended_by && (
        <Text size="xs">{t(`list.suspendedBy.${job.suspended_by}`)}</Text>
      )}
    </>
  );
}

function Cost(row: Row) {
  const { t } = useTranslation("jobs");
  const { cost } = row;
  if (!cost) return null;
  const expected = expectedMicro(row);
  const say = (micro: number) => moneyAbout(micro, cost.charged.currency);
  return (
    <>
      <Text size="sm">{say(cost.charged.micro)}</Text>
      {expected && (
        <Text size="xs" c="dimmed">
          {t("list.expected", { low: say(expected.low), high: say(expected.high) })}
        </Text>
      )}
      {cost.cap && (
        <Text size="xs" c={expected && expected.high > cost.cap.micro ? undefined : "dimmed"}>
          {t("list.cap", { cap: say(cost.cap.micro) })}
        </Text>
      )}
    </>
  );
}

function Deadline(row: Row) {
  const { t } = useTranslation("jobs");
  if (!row.job.deadline) return null;
  const late = lateSeconds(row, Date.now());
  return (
    <>
      <Text size="sm">
        <Time at={row.job.deadline} />
      </Text>
      {late > 0 && (
        <Text size="xs" c="var(--mantine-color-error)" fw={600}>
          {t("list.late", { time: durationAbout(late) })}
        </Text>
      )}
    </>
  );
}

function Everything(row: Row) {
  const { t } = useTranslation("jobs");
  return (
    <Stack gap={6}>
      <Group justify="space-between" wrap="nowrap" align="flex-start">
        <div style={{ minWidth: 0 }}>
          <Name job={row.job} />
        </div>
        <StateBadge state={row.job.state} />
      </Group>
      <Progress {...row} />
      <Cost {...row} />
      {row.job.deadline && (
        <div>
          <Text size="xs" c="dimmed">
            {t("list.deadline")}
          </Text>
          <Deadline {...row} />
        </div>
      )}
    </Stack>
  );
}
