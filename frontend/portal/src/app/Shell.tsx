/** The frame around every page: where one is, which studio, who one is. */
import { AppShell, Burger, Button, Group, Menu, NavLink, Select, Text, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconLayoutGrid, IconPlus, IconSettings, IconUserCircle } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";
import { useTranslation } from "react-i18next";
import { account } from "@/api/accounts";
import { api } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { LANGUAGES, speak } from "./i18n";
import { chooseStudio, chosenStudio, forgetStudio } from "./session";
import { Failure, Waiting } from "./states";

const PAGES = [
  { to: "/jobs", icon: IconLayoutGrid, word: "jobs" },
  { to: "/new", icon: IconPlus, word: "newJob" },
  { to: "/settings", icon: IconSettings, word: "settings" },
] as const;

export function Shell() {
  const { t, i18n } = useTranslation();
  const [isOpen, { toggle, close }] = useDisclosure();
  const navigate = useNavigate();
  const path = useRouterState({ select: (state) => state.location });
  const me = api.useQuery("get", "/api/v1/me", {}, { staleTime: 60_000, retry: false });
  const refused = me.error instanceof Refusal ? (me.error as Refusal) : undefined;

  useEffect(() => {
    // On its way to the door this frame is still there, and must not remember the door as where one was.
    if (refused?.status === 401 && path.pathname !== "/sign-in")
      void navigate({ to: "/sign-in", search: { back: path.href }, replace: true });
    if (refused?.code === "no-such-studio") {
      forgetStudio();
      void me.refetch();
    }
  }, [refused, navigate, path.href, path.pathname, me.refetch]);
  useEffect(() => {
    if (me.data && !chosenStudio()) chooseStudio(me.data.studio_id);
    if (me.data?.language && me.data.language !== i18n.language) speak(me.data.language);
  }, [me.data, i18n.language]);

  if (me.isPending || refused?.status === 401) return <Waiting />;
  if (me.error || !me.data) return <Failure error={me.error} again={() => void me.refetch()} />;
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 196, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group wrap="nowrap" gap="sm">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t("menu")} />
            <Text component={Link} to="/jobs" fw={700} c="inherit" td="none">
              Farmhand
            </Text>
            <StudioSwitch />
          </Group>
          <PersonMenu />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav" aria-label={t("pages")}>
        {PAGES.map(({ to, icon: Icon, word }) => (
          <NavLink
            key={to}
            component={Link}
            to={to}
            label={t(word)}
            leftSection={<Icon size={18} aria-hidden />}
            active={path.pathname.startsWith(to)}
            onClick={close}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main>
        <Outlet />
      </AppShell.Main>
    </AppShell>
  );
}

function StudioSwitch() {
  const { t } = useTranslation();
  const known = useQueryClient();
  const me = api.useQuery("get", "/api/v1/me", {}, { staleTime: 60_000, retry: false }).data;
  if (!me) return null;
  if (me.studios.length < 2)
    return (
      <Text c="dimmed" size="sm" truncate maw={180}>
        {me.studio}
      </Text>
    );
  return (
    <Select
      size="xs"
      w={180}
      aria-label={t("studio")}
      data={me.studios.map((studio) => ({ value: studio.id, label: studio.name }))}
      value={me.studio_id}
      allowDeselect={false}
      onChange={(id) => {
        if (!id) return;
        chooseStudio(id);
        known.clear(); // nothing of one studio is shown in another
        location.assign("/jobs");
      }}
    />
  );
}

function PersonMenu() {
  const { t, i18n } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const me = api.useQuery("get", "/api/v1/me", {}, { staleTime: 60_000, retry: false }).data;
  const change = api.useMutation("patch", "/api/v1/me");
  const signOut = async () => {
    await account("DELETE", "auth/session");
    forgetStudio();
    location.assign("/sign-in");
  };
  const say = (language: string) => {
    speak(language);
    change.mutate({ body: { language } });
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="subtle" color="gray" size="xs" leftSection={<IconUserCircle size={18} aria-hidden />}>
          <Text visibleFrom="sm" span inherit>
            {me?.name || me?.user}
          </Text>
          <Text hiddenFrom="sm" span inherit>
            {t("you")}
          </Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{me?.user}</Menu.Label>
        {Object.entries(LANGUAGES).map(([code, name]) => (
          <Menu.Item key={code} lang={code} onClick={() => say(code)} fw={i18n.language === code ? 700 : 400}>
            {name}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={() => setColorScheme(colorScheme === "dark" ? "light" : "dark")}>
          {colorScheme === "dark" ? t("light") : t("dark")}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item onClick={() => void signOut()}>{t("signOut")}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
