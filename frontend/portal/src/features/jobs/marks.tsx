/** How a job's state and progress look, wherever they are shown. */
import { Badge, Box, Progress, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { number } from "@/app/format";
import { total } from "./counts";
import { STATE_COLOUR, type State } from "./search";

export function StateBadge({ state }: { state: State }) {
  const { t } = useTranslation("jobs");
  return (
    <Badge color={STATE_COLOUR[state]} variant="light" tt="none" flex="none">
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
