/** Files that were chosen, on their way to be a scene: read at once, sent when it is said what they are. */
import { Alert, Button, Group, Paper, Select, Stack, Text, TextInput } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, once, type Schema } from "@/api/client";
import { bytes } from "@/app/format";
import { useMay } from "@/app/me";
import { chosenProject } from "@/app/session";
import { Failure, Waiting } from "@/app/states";
import { Gauge } from "./Gauge";
import { Picker } from "./Picker";
import { opening, sceneName } from "./picked";
import { isBusy, type Sending, uploading, useSending } from "./sending";

/** `scene`: these become a new version of that one. */
export function NewScene({ scene }: { scene: string | undefined }) {
  const { t } = useTranslation("scenes");
  const sending = useSending();
  const purpose = { kind: "new" as const, ...(scene ? { scene } : {}) };
  if (sending.purpose.kind !== "new" && isBusy(sending)) return <Alert color="yellow">{t("another")}</Alert>;
  if (sending.phase === "empty" || sending.phase === "sent" || sending.purpose.kind !== "new")
    return <Picker take={(files) => uploading.take(files, purpose)} title={t("drop")} hint={t("dropHint")} isLarge />;
  return (
    <Paper withBorder p="md">
      <Stack>
        <Chosen sending={sending} />
        {sending.version ? null : scene ? <Known sceneId={scene} sending={sending} /> : <Unknown sending={sending} />}
        <Gauge sending={sending} />
        {(sending.phase === "reading" || sending.phase === "read") && (
          <Text size="sm" c="dimmed">
            {t("readingHint")}
          </Text>
        )}
        {sending.phase === "sending" && (
          <Text size="sm" c="dimmed">
            {t("leave")}
          </Text>
        )}
      </Stack>
    </Paper>
  );
}

function Chosen({ sending }: { sending: Sending }) {
  const { t } = useTranslation("scenes");
  const { files, leftOut, version } = sending;
  return (
    <Group justify="space-between">
      <div>
        <Text fw={500}>
          {sending.top && `${sending.top.slice(0, -1)} · `}
          {t("picked", { count: files.length, size: bytes(sending.bytes) })}
        </Text>
        {leftOut > 0 && (
          <Text size="sm" c="dimmed">
            {t("leftOut", { count: leftOut })}
          </Text>
        )}
      </div>
      <Group gap="xs">
        {version && (
          <Button
            size="xs"
            renderRoot={(props) => <Link {...props} to="/new" search={{ scene: version.scene, version: version.id }} />}
          >
            {t("open")}
          </Button>
        )}
        <Button size="xs" variant="subtle" color="gray" onClick={() => uploading.forget()}>
          {t("startOver")}
        </Button>
      </Group>
    </Group>
  );
}

/** A scene that is not on the farm yet: its project, its name, the file that opens. */
function Unknown({ sending }: { sending: Sending }) {
  const { t } = useTranslation("scenes");
  const projects = api.useQuery("get", "/api/v1/projects", { params: { query: { limit: 200 } } });
  const mayMake = useMay("studio:write");
  const make = api.useMutation("post", "/api/v1/projects");
  const { entry, choose, choices, isAsked } = useEntry(sending);
  const [project, setProject] = useState<string>();
  const [firstProject, setFirstProject] = useState("");
  const [name, setName] = useState<string>();
  const sceneNamed = (name ?? (entry ? sceneName(entry) : "")).trim();
  if (projects.error) return <Failure error={projects.error} again={() => void projects.refetch()} />;
  if (!projects.data) return <Waiting />;
  const all = projects.data.results;
  const chosen = project ?? all.find(({ id }) => id === chosenProject())?.id ?? all[0]?.id;
  const isNone = all.length === 0;
  if (isNone && !mayMake) return <Alert color="yellow">{t("noProject")}</Alert>;
  const send = (into: string | undefined) => {
    if (into && entry) uploading.send({ project: into, name: sceneNamed, entry });
  };
  const begin = () =>
    isNone
      ? make.mutate(
          { params: { header: once() }, body: { name: firstProject.trim() } },
          { onSuccess: ({ id }) => send(id) },
        )
      : send(chosen);
  const isReady = Boolean(entry && sceneNamed && (isNone ? firstProject.trim() : chosen));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) begin();
      }}
    >
      <Stack>
        <Group grow align="flex-start" wrap="wrap" preventGrowOverflow={false}>
          {isNone ? (
            <TextInput
              label={t("newProject")}
              description={t("newProjectHint")}
              inputWrapperOrder={["label", "input", "description", "error"]}
              value={firstProject}
              onChange={({ currentTarget }) => setFirstProject(currentTarget.value)}
              maxLength={200}
              miw={200}
            />
          ) : (
            <Select
              label={t("project")}
              data={all.map((each: Schema["Project"]) => ({ value: each.id, label: each.name }))}
              value={chosen ?? null}
              onChange={(next) => setProject(next ?? undefined)}
              allowDeselect={false}
              searchable={all.length > 10}
              miw={200}
            />
          )}
          <TextInput
            label={t("sceneName")}
            description={t("sceneNameHint")}
            inputWrapperOrder={["label", "input", "description", "error"]}
            value={name ?? (entry ? sceneName(entry) : "")}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
            maxLength={200}
            miw={200}
          />
        </Group>
        <Entry entry={entry} choices={choices} isAsked={isAsked} choose={choose} />
        {make.error && <Failure error={make.error} />}
        <SendButton sending={sending} isReady={isReady && !make.isPending} label={t("send")} />
      </Stack>
    </form>
  );
}

/** A new version of a scene that is on the farm: only the file that opens may be asked for. */
function Known({ sceneId, sending }: { sceneId: string; sending: Sending }) {
  const { t } = useTranslation("scenes");
  const scene = api.useQuery("get", "/api/v1/scenes/{scene_id}", { params: { path: { scene_id: sceneId } } });
  const { entry, choose, choices, isAsked } = useEntry(sending, scene.data?.latest_version?.entry);
  if (scene.error) return <Failure error={scene.error} again={() => void scene.refetch()} />;
  if (!scene.data) return <Waiting />;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (entry) uploading.send({ scene: sceneId, entry });
      }}
    >
      <Stack>
        <Text>{scene.data.name}</Text>
        <Entry entry={entry} choices={choices} isAsked={isAsked} choose={choose} />
        <SendButton sending={sending} isReady={Boolean(entry)} label={t("sendNew")} />
      </Stack>
    </form>
  );
}

/** The file that opens: the one of the version before, the only one near the top, or the one a person names. */
function useEntry({ files }: Sending, before?: string) {
  const [named, setNamed] = useState<string>();
  const { choices, guess } = opening(files.map(({ path }) => path));
  const likely = before !== undefined && choices.includes(before) ? before : guess;
  const entry = named !== undefined && choices.includes(named) ? named : likely;
  return { entry, choices, choose: setNamed, isAsked: choices.length > 1 };
}

interface EntryProps {
  entry: string | undefined;
  choices: string[];
  isAsked: boolean;
  choose: (path: string | undefined) => void;
}

function Entry({ entry, choices, isAsked, choose }: EntryProps) {
  const { t } = useTranslation("scenes");
  if (choices.length === 0) return <Alert color="yellow">{t("noBlend")}</Alert>;
  if (!isAsked) return null;
  return (
    <Select
      label={t("entry")}
      placeholder={t("entryAsk")}
      data={choices}
      value={entry ?? null}
      onChange={(path) => choose(path ?? undefined)}
      allowDeselect={false}
      searchable
      error={entry === undefined && t("entryAsk")}
    />
  );
}

function SendButton({ sending, isReady, label }: { sending: Sending; isReady: boolean; label: string }) {
  const isAsked = sending.destination !== undefined;
  return (
    <Button type="submit" w="fit-content" disabled={!isReady} loading={isAsked && !sending.error && !sending.isPaused}>
      {label}
    </Button>
  );
}
