/** The farm's machines: what runs and why, for whoever looks after it. */
import { Alert, Stack } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { Head } from "@/app/Head";
import { PageTabs } from "@/app/PageTabs";
import { Decisions } from "./Decisions";
import { Fleets } from "./Fleets";
import { POLL_MS } from "./reading";
import { Workers } from "./Workers";

const TABS = { fleets: Fleets, workers: Workers, decisions: Decisions } as const;

export function FleetPage() {
  const { t } = useTranslation("fleet");
  const { t: core } = useTranslation();
  const { tab } = useSearch({ from: "/inside/fleet" });
  const navigate = useNavigate();
  const farm = api.useQuery("get", "/api/v1/farm", {}, { refetchInterval: POLL_MS });
  return (
    <Stack>
      <Head title={core("fleet")} />
      {farm.data?.is_paused && (
        <Alert color="yellow" title={t("farmPaused")}>
          {t("farmPausedText")}
        </Alert>
      )}
      <PageTabs
        tabs={TABS}
        open={tab}
        label={(name) => t(`tabs.${name}`)}
        go={(next) => void navigate({ to: "/fleet", search: { tab: next } })}
      />
    </Stack>
  );
}
