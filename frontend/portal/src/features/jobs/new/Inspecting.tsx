/** A whole version that is being looked into: what its inspection does or waits for, as it happens. */
import { Button, Group, Loader, Paper, Stack, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { duration } from "@/app/format";
import { useLookup } from "@/features/scenes/words";

const EVERY_MS = 2_000;

export function Inspecting({ version }: { version: Schema["VersionDetail"] }) {
  const { t } = useTranslation("scenes");
  const { t: words } = useTranslation("newJob");
  const lookup = useLookup("newJob");
  const query = { scene_version: version.id, purpose: "inspection", limit: 1 };
  const jobs = api.useQuery("get", "/api/v1/jobs", { params: { query } }, { refetchInterval: EVERY_MS });
  const job = jobs.data?.results[0];
  const why = api.useQuery(
    "get",
    "/api/v1/jobs/{job_id}/why",
    { params: { path: { job_id: job?.id ?? "" } } },
    { enabled: job !== undefined, refetchInterval: EVERY_MS },
  );
  const code = why.data?.code ?? "none";
  const sentence = lookup(`waits.${code}`, why.data?.params) ?? why.data?.sentence;
  const isOver = code === "failed" || code === "cancelled";
  return (
    <Paper withBorder p="xl">
      <Stack align="center" gap="xs" role="status">
        <Group gap="sm">
          {!isOver && <Loader size="sm" />}
          <Text fw={500}>
            {t("inspecting")} <Since at={version.whole_at} />
          </Text>
        </Group>
        <Text>{sentence}</Text>
        <Text size="sm" c="dimmed" ta="center">
          {t("inspectingHint")}
        </Text>
        {job && isOver && (
          <Button
            variant="default"
            size="xs"
            renderRoot={(props) => <Link {...props} to="/jobs/$jobId" params={{ jobId: job.id }} />}
          >
            {words("toLog")}
          </Button>
        )}
      </Stack>
    </Paper>
  );
}

function Since({ at }: { at: string | null }) {
  const { t } = useTranslation("scenes");
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const seconds = at ? Math.max(0, Math.round((now - Date.parse(at)) / 1000)) : 0;
  return seconds > 1 ? (
    <Text span c="dimmed" fw={400} aria-hidden>
      {t("inspectingSince", { time: duration(seconds) })}
    </Text>
  ) : null;
}
