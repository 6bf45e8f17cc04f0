import { Title } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { PageTabs } from "@/app/PageTabs";
import { Members } from "./Members";
import { Profile } from "./Profile";
import { Sessions } from "./Sessions";
import { StudioProfile } from "./StudioProfile";
import { Tokens } from "./Tokens";

const TABS = { you: Profile, members: Members, tokens: Tokens, studio: StudioProfile, sessions: Sessions } as const;

export function SettingsPage() {
  const { t } = useTranslation("studios");
  const { t: core } = useTranslation();
  const { tab } = useSearch({ from: "/inside/settings" });
  const navigate = useNavigate();
  return (
    <>
      <Title order={1} size="h3" mb="md">
        {core("settings")}
      </Title>
      <PageTabs
        tabs={TABS}
        open={tab}
        label={(name) => t(name)}
        go={(next) => void navigate({ to: "/settings", search: { tab: next } })}
      />
    </>
  );
}
