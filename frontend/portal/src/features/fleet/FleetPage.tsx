/** The farm's machines: what runs and why, for whoever looks after it. */
import { Alert, Stack, Tabs } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { Head } from "@/app/Head";
import { Decisions } from "./Decisions";
import { Fleets } from "./Fleets";
import { POLL_MS } from "./reading";
import { Workers } from "./Workers";

const TABS = { fleets: Fleets, workers: Workers, decisions: Decisions } as const;
type Tab = keyof typeof TABS;

export function FleetPage() {
  const { t } = useTranslation("fleet");
  const { t: core } = useTranslation();
  const { tab = "fleets" } = useSearch({ from: "/inside/fleet" });
  const navigate = useNavigate();
  const farm = api.useQuery("get", "/api/v1/farm", {}, { refetchInterval: POLL_MS });
  const shown: Tab = tab in TABS ? (tab as Tab) : "fleets";
  const Page = TABS[shown];
  return (
    <Stack>
      <Head title={core("fleet")} />
      {farm.data?.is_paused && (
        <Alert color="yellow" title={t("farmPaused")}>
          {t("farmPausedText")}
        </Alert>
      )}
      <Tabs value={shown} onChange={(next) => void navigate({ to: "/fleet", search: { tab: next ?? undefined } })}>
        <Tabs.List mb="md">
          {(Object.keys(TABS) as Tab[]).map((name) => (
            <Tabs.Tab key={name} value={name}>
              {t(`tabs.${name}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={shown}>
          <Page />
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}
