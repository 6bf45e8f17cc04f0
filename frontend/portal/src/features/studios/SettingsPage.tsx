import { Tabs, Title } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { Members } from "./Members";
import { Profile } from "./Profile";
import { Sessions } from "./Sessions";
import { StudioProfile } from "./StudioProfile";
import { Tokens } from "./Tokens";

const TABS = { you: Profile, members: Members, tokens: Tokens, studio: StudioProfile, sessions: Sessions } as const;
type Tab = keyof typeof TABS;

export function SettingsPage() {
  const { t } = useTranslation("studios");
  const { t: core } = useTranslation();
  const { tab = "you" } = useSearch({ from: "/inside/settings" });
  const navigate = useNavigate();
  const shown: Tab = tab in TABS ? (tab as Tab) : "you";
  const Page = TABS[shown];
  return (
    <>
      <Title order={1} size="h3" mb="md">
        {core("settings")}
      </Title>
      <Tabs value={shown} onChange={(next) => void navigate({ to: "/settings", search: { tab: next ?? undefined } })}>
        <Tabs.List mb="md">
          {(Object.keys(TABS) as Tab[]).map((name) => (
            <Tabs.Tab key={name} value={name}>
              {t(name)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={shown}>
          <Page />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
