/** Which jobs are listed, in which order: all of it stands in the address. */
import { Button, Chip, CloseButton, Group, Popover, Select, Stack, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconFilter, IconSearch } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useRef } from "react";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { useMe } from "@/app/me";
import { useProjects } from "@/app/Place";
import { chooseProject } from "@/app/session";
import { isNarrowed, type JobsSearch, SORTS, STATES, type State } from "../search";

export function Filters({ search }: { search: JobsSearch }) {
  const { t } = useTranslation("jobs");
  const go = useGo(search);
  const wait = useDebouncedCallback((name: string) => go({ name }), 250);
  const find = useRef<HTMLInputElement>(null);
  const clear = () => {
    if (find.current) find.current.value = "";
    go({ name: "" });
  };
  return (
    <Group gap="sm">
      <TextInput
        ref={find}
        size="xs"
        w={{ base: "100%", xs: 220 }}
        placeholder={t("find")}
        aria-label={t("find")}
        leftSection={<IconSearch size={14} aria-hidden />}
        rightSection={search.name && <CloseButton size="xs" onClick={clear} aria-label={t("list.clearName")} />}
        defaultValue={search.name ?? ""}
        onChange={(event) => wait(event.currentTarget.value.trim())}
      />
      <Chip.Group multiple value={search.state ?? []} onChange={(state) => go({ state: state as State[] })}>
        <Group gap={6}>
          {STATES.map((state) => (
            <Chip key={state} value={state} size="xs" variant="light">
              {t(`states.${state}`)}
            </Chip>
          ))}
        </Group>
      </Chip.Group>
      <More search={search} />
      <Select
        size="xs"
        w={170}
        aria-label={t("sort")}
        data={SORTS.map((sort) => ({ value: sort, label: t(`sorts.${sort}`) }))}
        value={search.sort ?? "-created"}
        allowDeselect={false}
        onChange={(sort) => go({ sort: SORTS.find((each) => each === sort) })}
      />
      {isNarrowed(search) && <ClearAll search={search} />}
    </Group>
  );
}

/** Go to the list with other filters; what is empty is left out of the address. */
function useGo(search: JobsSearch) {
  const navigate = useNavigate();
  return (change: JobsSearch) => {
    const next = Object.entries({ ...search, ...change }).filter(([, value]) => value?.length);
    void navigate({ to: "/jobs", search: Object.fromEntries(next), replace: true });
  };
}

export function ClearAll({ search }: { search: JobsSearch }) {
  const { t } = useTranslation("jobs");
  const navigate = useNavigate();
  const clear = () => {
    chooseProject("");
    void navigate({ to: "/jobs", search: search.sort ? { sort: search.sort } : {} });
  };
  return (
    <Button size="xs" variant="subtle" onClick={clear}>
      {t("list.clear")}
    </Button>
  );
}

/** The filters that are wanted less often. */
function More({ search }: { search: JobsSearch }) {
  const { t } = useTranslation("jobs");
  const count = (["project", "artist", "sequence", "shot"] as const).filter((name) => search[name]).length;
  return (
    <Popover position="bottom-start" shadow="md" trapFocus withinPortal>
      <Popover.Target>
        <Button size="xs" variant={count ? "light" : "default"} leftSection={<IconFilter size={14} aria-hidden />}>
          {count ? t("list.moreCount", { count }) : t("list.more")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <MoreFields search={search} />
      </Popover.Dropdown>
    </Popover>
  );
}

function MoreFields({ search }: { search: JobsSearch }) {
  const { t } = useTranslation("jobs");
  const go = useGo(search);
  const wait = useDebouncedCallback((change: JobsSearch) => go(change), 250);
  const me = useMe();
  const projects = useProjects();
  const members = api.useQuery("get", "/api/v1/members", { params: { query: { limit: 200 } } }, { staleTime: 60_000 });
  const people = (members.data?.results ?? []).filter((member) => member.user_id !== me?.user_id);
  const goToProject = (project: string | null) => {
    chooseProject(project ?? "");
    go({ project: project ?? "" });
  };
  return (
    <Stack gap="sm" w={260}>
      <Select
        size="xs"
        label={t("list.project")}
        placeholder={t("list.any")}
        clearable
        data={projects.map(({ id, name }) => ({ value: id, label: name }))}
        value={search.project ?? null}
        onChange={goToProject}
        comboboxProps={{ withinPortal: false }}
      />
      <Select
        size="xs"
        label={t("list.artist")}
        placeholder={t("list.anybody")}
        clearable
        searchable
        data={[
          { value: "me", label: t("list.me") },
          ...people.map(({ user_id, name, email }) => ({ value: user_id, label: name || email })),
        ]}
        value={search.artist ?? null}
        onChange={(artist) => go({ artist: artist ?? "" })}
        comboboxProps={{ withinPortal: false }}
      />
      {(["sequence", "shot"] as const).map((tag) => (
        <TextInput
          key={tag}
          size="xs"
          label={t(`list.${tag}`)}
          placeholder={t("list.any")}
          defaultValue={search[tag] ?? ""}
          onChange={(event) => wait({ [tag]: event.currentTarget.value.trim() })}
        />
      ))}
    </Stack>
  );
}
