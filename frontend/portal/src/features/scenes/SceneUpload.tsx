import { Alert, Progress as Bar, Button, Group, Paper, Select, Stack, Text, TextInput } from "@mantine/core";
import { Dropzone } from "@mantine/dropzone";
import "@mantine/dropzone/styles.css";
import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { answered, api, farm, once } from "@/api/client";
import { bytes, duration, number } from "@/app/format";
import { Failure, Waiting } from "@/app/states";
import { entries, merged, type Picked, picked } from "./picked";
import { Paused, type Progress, Upload } from "./upload";

interface Props {
  files: readonly Picked[];
  setFiles: (files: readonly Picked[]) => void;
  sent: (versionId: string) => void;
}

/** Choose files and send them. */
export function SceneUpload({ files, setFiles, sent }: Props) {
  const { t } = useTranslation("scenes");
  const add = (more: readonly File[]) => setFiles(merged(files, picked(more)));
  return (
    <Stack>
      <Picker add={add} title={t("drop")} hint={t("dropHint")} />
      {files.length > 0 && <Sending files={files} forget={() => setFiles([])} sent={sent} />}
    </Stack>
  );
}

export function Picker({ add, title, hint }: { add: (files: File[]) => void; title: string; hint: string }) {
  const { t } = useTranslation("scenes");
  const folder = useRef<HTMLInputElement>(null);
  const open = useRef<() => void>(null);
  return (
    <Dropzone onDrop={add} openRef={open} activateOnClick={false} p="xl" useFsAccessApi={false}>
      <Stack align="center" gap="sm">
        <Text fw={500} ta="center">
          {title}
        </Text>
        <Text size="sm" c="dimmed" ta="center">
          {hint}
        </Text>
        <Group style={{ pointerEvents: "all" }}>
          <Button variant="default" onClick={() => open.current?.()}>
            {t("chooseFiles")}
          </Button>
          <Button variant="default" onClick={() => folder.current?.click()}>
            {t("chooseFolder")}
          </Button>
        </Group>
        <input
          ref={folder}
          type="file"
          hidden
          multiple
          aria-label={t("chooseFolder")}
          data-testid="folder"
          {...{ webkitdirectory: "" }}
          onChange={(event) => add([...(event.currentTarget.files ?? [])])}
        />
      </Stack>
    </Dropzone>
  );
}

function Sending({
  files,
  forget,
  sent,
}: {
  files: readonly Picked[];
  forget: () => void;
  sent: (id: string) => void;
}) {
  const { t } = useTranslation("scenes");
  const blends = entries(files);
  const projects = api.useQuery("get", "/api/v1/projects", { params: { query: { limit: 200 } } });
  const [project, setProject] = useState<string | null>(null);
  const [entry, setEntry] = useState<string | null>(null);
  const [name, setName] = useState<string | null>(null);
  const opens = entry && blends.includes(entry) ? entry : blends[0];
  const chosenProject = project ?? projects.data?.results[0]?.id;
  const sceneName =
    name ??
    opens
      ?.split("/")
      .at(-1)
      ?.replace(/\.blend$/i, "") ??
    "";
  const upload = useUpload(files, sent);
  if (projects.error) return <Failure error={projects.error} again={() => void projects.refetch()} />;
  if (!projects.data) return <Waiting />;
  const size = files.reduce((all, { file }) => all + file.size, 0);
  return (
    <Paper withBorder p="md">
      <Stack>
        <Text>{t("picked", { count: files.length, size: bytes(size) })}</Text>
        {opens === undefined && <Alert color="yellow">{t("noBlend")}</Alert>}
        {opens !== undefined && (
          <>
            <Group grow align="flex-start">
              <Select
                label={t("project")}
                data={projects.data.results.map((each) => ({ value: each.id, label: each.name }))}
                value={chosenProject}
                onChange={setProject}
                allowDeselect={false}
              />
              <TextInput
                label={t("sceneName")}
                description={t("sceneNameHint")}
                inputWrapperOrder={["label", "input", "description", "error"]}
                value={sceneName}
                onChange={(event) => setName(event.currentTarget.value)}
              />
            </Group>
            {blends.length > 1 && (
              <Select
                label={t("entry")}
                data={blends}
                value={opens}
                onChange={setEntry}
                allowDeselect={false}
                searchable
              />
            )}
            <Gauge upload={upload} />
            <Group>
              {!upload.isRunning && (
                <Button
                  disabled={!chosenProject || !sceneName.trim()}
                  onClick={() =>
                    chosenProject && upload.start({ project: chosenProject, name: sceneName.trim(), entry: opens })
                  }
                >
                  {upload.isPaused ? t("goOn") : t("upload")}
                </Button>
              )}
              {upload.isRunning && (
                <Button variant="default" onClick={upload.pause}>
                  {t("pause")}
                </Button>
              )}
              {!upload.isRunning && (
                <Button variant="subtle" color="gray" onClick={forget}>
                  {t("startOver")}
                </Button>
              )}
            </Group>
          </>
        )}
      </Stack>
    </Paper>
  );
}

export interface Order {
  project: string;
  name: string;
  entry: string;
}

export interface Running {
  progress: Progress | undefined;
  startedAt: number;
  isRunning: boolean;
  isPaused: boolean;
  error: unknown;
  start: (order: Order) => void;
  pause: () => void;
}

/** An upload's life on a page: it runs, is paused, goes on, ends with the version's id. */
export function useUpload(files: readonly Picked[], sent: (versionId: string) => void): Running {
  const [progress, setProgress] = useState<Progress>();
  const [startedAt, setStartedAt] = useState(0);
  const abort = useRef<AbortController>(null);
  const run = useMutation({
    mutationFn: async (order: Order) => {
      const controller = new AbortController();
      abort.current = controller;
      let stage = "";
      const told = (now: Progress) => {
        if (now.stage !== stage) setStartedAt(Date.now());
        stage = now.stage;
        setProgress(now);
      };
      const upload = new Upload(files, told, controller.signal);
      await upload.hash();
      return await upload.send(await findScene(order), order.entry);
    },
    onSuccess: (version) => sent(version.id),
  });
  const isPaused = run.error instanceof Paused;
  return {
    progress,
    startedAt,
    isRunning: run.isPending,
    isPaused,
    error: isPaused ? null : run.error,
    start: run.mutate,
    pause: () => abort.current?.abort(),
  };
}

/** The project's scene of that name, made if there is none. */
async function findScene({ project, name }: Order): Promise<string> {
  const query = { project, name, limit: 1 };
  const [found] = answered(await farm.GET("/api/v1/scenes", { params: { query } })).results;
  if (found) return found.id;
  return answered(await farm.POST("/api/v1/scenes", { params: { header: once() }, body: { project, name } })).id;
}

export function Gauge({ upload }: { upload: Running }) {
  const { t } = useTranslation("scenes");
  const { progress, startedAt, isRunning, isPaused, error } = upload;
  if (error) return <Failure error={error} />;
  if (isPaused) return <Alert>{t("paused")}</Alert>;
  if (!isRunning || !progress) return null;
  const { stage, files, filesDone, bytes: all, bytesDone, isOffline } = progress;
  const seconds = (Date.now() - startedAt) / 1000;
  const rate = seconds > 1 ? bytesDone / seconds : 0;
  const text =
    stage === "hashing"
      ? t("hashing", { done: number(filesDone), all: number(files) })
      : files === 0
        ? t("nothingToSend")
        : t("sending", { done: number(filesDone), all: number(files), bytesDone: bytes(bytesDone), bytes: bytes(all) });
  return (
    <Stack gap={6}>
      {isOffline && <Alert color="yellow">{t("offline")}</Alert>}
      <Bar value={all ? (100 * bytesDone) / all : 100} aria-label={text} />
      <Text size="sm" role="status">
        {text}
        {rate > 0 &&
          bytesDone < all &&
          ` · ${t("left", { rate: bytes(rate), time: duration((all - bytesDone) / rate) })}`}
      </Text>
    </Stack>
  );
}
