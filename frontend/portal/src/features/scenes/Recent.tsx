/** Scenes that are on the farm: they are rendered again without an upload. */
import { NavLink, Stack, Text } from "@mantine/core";
import { IconMovie } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { Time } from "@/app/format";

const SHOWN = 6;

export function Recent() {
  const { t } = useTranslation("scenes");
  const navigate = useNavigate();
  const scenes = api.useQuery("get", "/api/v1/scenes", { params: { query: { limit: SHOWN } } });
  const projects = api.useQuery("get", "/api/v1/projects", { params: { query: { limit: 200 } } });
  const open = api.useMutation("get", "/api/v1/scenes/{scene_id}", {
    onSuccess: ({ id, latest_version }) =>
      void navigate({ to: "/new", search: { scene: id, ...(latest_version ? { version: latest_version.id } : {}) } }),
  });
  const rows = scenes.data?.results ?? [];
  if (rows.length === 0) return null;
  return (
    <Stack gap="xs" maw={560}>
      <div>
        <Text fw={500}>{t("recent")}</Text>
        <Text size="sm" c="dimmed">
          {t("recentHint")}
        </Text>
      </div>
      <Stack gap={0}>
        {rows.map(({ id, name, project, created_at }) => (
          <NavLink
            key={id}
            component="button"
            label={name}
            description={
              <>
                {projects.data?.results.find((each) => each.id === project)?.name} · <Time at={created_at} />
              </>
            }
            leftSection={<IconMovie size={18} stroke={1.5} aria-hidden />}
            disabled={open.isPending}
            onClick={() => open.mutate({ params: { path: { scene_id: id } } })}
          />
        ))}
      </Stack>
    </Stack>
  );
}
