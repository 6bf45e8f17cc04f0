/** The frame around every page: where one is, which studio and project, who one is. */
import { AppShell, Burger, Group, NavLink, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconLayoutGrid, IconPlus, IconServer2, IconSettings } from "@tabler/icons-react";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import { Refusal } from "@/api/refusal";
import { NoStudio } from "@/features/studios/NoStudio";
import { speak } from "./i18n";
import { useMeQuery } from "./me";
import { PersonMenu } from "./PersonMenu";
import { Place } from "./Place";
import { chooseStudio, chosenStudio, forgetStudio } from "./session";
import { Failure, Waiting } from "./states";

const PAGES = [
  { to: "/jobs", icon: IconLayoutGrid, word: "jobs", scope: "" },
  { to: "/new", icon: IconPlus, word: "newJob", scope: "" },
  { to: "/fleet", icon: IconServer2, word: "fleet", scope: "studio:read" },
  { to: "/settings", icon: IconSettings, word: "settings", scope: "" },
] as const;

export function Shell() {
  const { t } = useTranslation();
  const [isOpen, { toggle, close }] = useDisclosure();
  const { me, refused, again } = useWhoIsThere();
  const main = useFocusOnNewPages();
  const path = useRouterState({ select: (state) => state.location.pathname });

  if (refused?.code === "no-studio") return <NoStudio />;
  if (refused && refused.status !== 401) return <Failure error={refused} again={again} />;
  if (!me || refused) return <Waiting />;
  if (!me.studio_id) return <NoStudio />;
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 196, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <a href="#main" className="skip">
        {t("skip")}
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group wrap="nowrap" gap="sm" miw={0}>
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t("menu")} />
            <Text component={Link} to="/jobs" fw={700} c="inherit" td="none">
              Farmhand
            </Text>
            <Place me={me} />
          </Group>
          <PersonMenu me={me} />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav" aria-label={t("pages")}>
        {PAGES.filter(({ scope }) => !scope || me.scopes.includes(scope)).map(({ to, icon: Icon, word }) => (
          <NavLink
            key={to}
            component={Link}
            to={to}
            label={t(word)}
            leftSection={<Icon size={18} aria-hidden />}
            active={path.startsWith(to)}
            onClick={close}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1} ref={main}>
        <Outlet />
      </AppShell.Main>
    </AppShell>
  );
}

/** Ask who is signed in; who is not goes to the door and comes back to where they were. */
function useWhoIsThere() {
  const { i18n } = useTranslation();
  const navigate = useNavigate();
  const place = useRouterState({ select: (state) => state.location });
  const { data: me, error, refetch } = useMeQuery();
  const refused: Refusal | undefined = error && !me ? asRefusal(error) : refusedFor(error, 401);
  useEffect(() => {
    // On its way to the door this frame is still there, and must not remember the door as where one was.
    if (refused?.status === 401 && place.pathname !== "/sign-in")
      void navigate({ to: "/sign-in", search: { back: place.href }, replace: true });
    if (refused?.code === "no-such-studio") {
      forgetStudio();
      void refetch();
    }
  }, [refused, navigate, place.href, place.pathname, refetch]);
  useEffect(() => {
    if (me?.studio_id && !chosenStudio()) chooseStudio(me.studio_id);
    if (me?.language && me.language !== i18n.language) speak(me.language);
  }, [me, i18n.language]);
  return { me, refused, again: () => void refetch() };
}

const asRefusal = (error: unknown) =>
  error instanceof Refusal ? error : new Refusal({ status: 0, code: "unreachable" });
const refusedFor = (error: unknown, status: number) =>
  error instanceof Refusal && error.status === status ? error : undefined;

/** Somebody who listens to the page, or goes by keys, begins at a new page's top. */
function useFocusOnNewPages() {
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const before = useRef(path);
  useEffect(() => {
    if (before.current !== path) main.current?.focus({ preventScroll: true });
    before.current = path;
  }, [path]);
  return main;
}
