/** Which studio and which of its projects one works in. */
import { Button, Menu, Text } from "@mantine/core";
import { IconCheck, IconChevronDown } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import type { Me } from "./me";
import { chooseProject, chooseStudio, chosenProject } from "./session";

const chosenMark = (isChosen: boolean) => isChosen && <IconCheck size={16} aria-hidden />;

export function Place({ me }: { me: Me }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const known = useQueryClient();
  const projects = useProjects();
  const shown = useShownProject();
  const goToProject = (project: string) => {
    chooseProject(project);
    void navigate({ to: "/jobs", search: project ? { project } : {} });
  };
  const goToStudio = (studio: string) => {
    if (studio === me.studio_id) return;
    chooseStudio(studio);
    known.clear(); // nothing of one studio is shown in another
    location.assign("/");
  };
  const name = projects.find(({ id }) => id === shown)?.name ?? t("allProjects");
  return (
    <Menu position="bottom-start" width={260}>
      <Menu.Target>
        <Button
          variant="subtle"
          color="gray"
          size="xs"
          px="xs"
          miw={0}
          rightSection={<IconChevronDown size={14} aria-hidden />}
          aria-label={t("place", { studio: me.studio, project: name })}
        >
          <Text inherit span truncate>
            {me.studio}
          </Text>
          <Text inherit span truncate fw={400} visibleFrom="sm" ml={6}>
            / {name}
          </Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown mah="70vh" style={{ overflowY: "auto" }}>
        <Menu.Label>{t("projects")}</Menu.Label>
        {[{ id: "", name: t("allProjects") }, ...projects].map(({ id, name: project }) => (
          <Menu.Item
            key={id}
            onClick={() => goToProject(id)}
            aria-current={id === shown}
            rightSection={chosenMark(id === shown)}
          >
            {project}
          </Menu.Item>
        ))}
        {me.studios.length > 1 && (
          <>
            <Menu.Divider />
            <Menu.Label>{t("studios")}</Menu.Label>
            {me.studios.map((studio) => (
              <Menu.Item
                key={studio.id}
                onClick={() => goToStudio(studio.id)}
                aria-current={studio.id === me.studio_id}
                rightSection={chosenMark(studio.id === me.studio_id)}
              >
                {studio.name}
              </Menu.Item>
            ))}
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

/** The studio's projects, newest first. */
export function useProjects() {
  return (
    api.useQuery("get", "/api/v1/projects", { params: { query: { limit: 200 } } }, { staleTime: 60_000 }).data
      ?.results ?? []
  );
}

/** The project that the address names; where it names none, the one chosen before. */
function useShownProject(): string {
  const { project }: { project?: string } = useSearch({ strict: false });
  return project ?? chosenProject();
}
