import { Stack, Title } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { Failure, Waiting } from "@/app/states";
import type { Picked } from "@/features/scenes/picked";
import { Report } from "@/features/scenes/Report";
import { SceneUpload } from "@/features/scenes/SceneUpload";
import { OrderForm } from "./OrderForm";

const EVERY_MS = 1_500;

/** From files to a job: send the scene, see what is in it, order. The version in the address is where one is. */
export function NewJobPage() {
  const { t } = useTranslation("scenes");
  const { version } = useSearch({ from: "/inside/new" });
  const navigate = useNavigate();
  const [files, setFiles] = useState<readonly Picked[]>([]); // kept, so that missing ones can be added to them
  const go = (id: string | undefined) => void navigate({ to: "/new", search: { version: id } });
  return (
    <Stack maw={900}>
      <Title order={1} size="h3">
        {t("title")}
      </Title>
      {version ? (
        <Version id={version} files={files} setFiles={setFiles} go={go} />
      ) : (
        <SceneUpload files={files} setFiles={setFiles} sent={go} />
      )}
    </Stack>
  );
}

interface Props {
  id: string;
  files: readonly Picked[];
  setFiles: (files: readonly Picked[]) => void;
  go: (id: string | undefined) => void;
}

function Version({ id, files, setFiles, go }: Props) {
  const { t } = useTranslation("scenes");
  const version = api.useQuery(
    "get",
    "/api/v1/scene-versions/{version_id}",
    { params: { path: { version_id: id } } },
    {
      refetchInterval: (query) =>
        ["inspected", "refused"].includes(query.state.data?.status ?? "") ? false : EVERY_MS,
    },
  );
  const [allowMissing, setAllowMissing] = useState(false);
  if (version.error) return <Failure error={version.error} again={() => void version.refetch()} />;
  if (!version.data) return <Waiting />;
  return (
    <>
      <Report
        version={version.data}
        files={files}
        setFiles={setFiles}
        go={go}
        allowMissing={allowMissing}
        setAllowMissing={setAllowMissing}
      />
      {version.data.status === "whole" && <Waiting what={t("inspecting")} />}
      {version.data.status === "inspected" && <OrderForm version={version.data} allowMissing={allowMissing} />}
    </>
  );
}
