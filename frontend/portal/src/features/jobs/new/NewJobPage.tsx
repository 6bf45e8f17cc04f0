/** From files to a job: send a scene, see what is in it, order. Where one is stands in the address. */
import { Alert, Button, Stack, Stepper, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useNavigate, useSearch } from "@tanstack/react-router";
import i18next from "i18next";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { bytes } from "@/app/format";
import { Head } from "@/app/Head";
import { Failure, Waiting } from "@/app/states";
import { AddFiles } from "@/features/scenes/AddFiles";
import { Again } from "@/features/scenes/Again";
import { Needs } from "@/features/scenes/Needs";
import { NewScene } from "@/features/scenes/NewScene";
import { Recent } from "@/features/scenes/Recent";
import { Report } from "@/features/scenes/Report";
import { uploading, useSending } from "@/features/scenes/sending";
import { useDraft } from "./draft";
import { Inspecting } from "./Inspecting";
import { OrderForm } from "./OrderForm";
import { isIncomplete } from "./scenery";

const EVERY_MS = 1_500;

export function NewJobPage() {
  const { t } = useTranslation("newJob");
  const { scene, version } = useSearch({ from: "/inside/new" });
  useFollowed(version);
  return (
    <Stack maw={1180}>
      <Head title={t("title")} />
      {version ? (
        <Version id={version} />
      ) : (
        <>
          <Steps at={0} />
          <NewScene scene={scene} />
          {!scene && <Recent />}
        </>
      )}
    </Stack>
  );
}

/** Go to the version that an upload began from here; each only once, so that going back stays possible. */
function useFollowed(shown: string | undefined): void {
  const navigate = useNavigate();
  const { version, purpose } = useSending();
  const followed = useRef(version?.id);
  useEffect(() => {
    if (!version || followed.current === version.id) return;
    followed.current = version.id;
    const cameFrom = purpose.kind === "new" ? undefined : purpose.version;
    if (version.id !== shown && cameFrom === shown)
      void navigate({
        to: "/new",
        search: { scene: version.scene, version: version.id },
        replace: purpose.kind === "again",
      });
  }, [version, purpose, shown, navigate]);
}

function Steps({ at }: { at: number }) {
  const { t } = useTranslation("newJob");
  return (
    <Stepper active={at} size="xs" iconSize={26} aria-label={t("title")}>
      <Stepper.Step label={t("steps.files")} allowStepSelect={false} />
      <Stepper.Step label={t("steps.report")} allowStepSelect={false} />
      <Stepper.Step label={t("steps.order")} allowStepSelect={false} />
    </Stepper>
  );
}

function Version({ id }: { id: string }) {
  const version = api.useQuery(
    "get",
    "/api/v1/scene-versions/{version_id}",
    { params: { path: { version_id: id } } },
    {
      refetchInterval: ({ state }) =>
        state.data?.status === "inspected" || state.data?.status === "refused" ? false : EVERY_MS,
    },
  );
  const scene = api.useQuery(
    "get",
    "/api/v1/scenes/{scene_id}",
    { params: { path: { scene_id: version.data?.scene ?? "" } } },
    { enabled: version.data !== undefined },
  );
  useArrived(version);
  const error = version.error ?? scene.error;
  if (error) return <Failure error={error} again={() => void version.refetch()} />;
  if (!version.data || !scene.data) return <Waiting />;
  return (
    <>
      <Steps at={STEP[version.data.status]} />
      <Named version={version.data} scene={scene.data} />
      <Stage version={version.data} scene={scene.data} />
    </>
  );
}

/** What was sent from here is looked at again as soon as it has arrived. */
function useArrived({ data, refetch }: { data: Schema["VersionDetail"] | undefined; refetch: () => unknown }): void {
  const { phase, version } = useSending();
  const hasArrived = phase === "sent" && version?.id === data?.id && data?.status === "uploading";
  useEffect(() => {
    if (hasArrived) void refetch();
  }, [hasArrived, refetch]);
}

type Both = { version: Schema["VersionDetail"]; scene: Schema["SceneDetail"] };

const STEP: Record<Schema["VersionStatusEnum"], number> = { uploading: 0, whole: 1, inspected: 2, refused: 1 };

function Named({ version, scene }: Both) {
  const { t } = useTranslation("scenes");
  const navigate = useNavigate();
  return (
    <Stack gap={2}>
      <Text fw={600} size="lg">
        {scene.name}
      </Text>
      <Text size="sm" c="dimmed">
        {[
          t("version", { number: version.number }),
          version.entry,
          t("picked", { count: version.file_count, size: bytes(version.byte_count) }),
        ].join(" · ")}
      </Text>
      <Button
        variant="subtle"
        color="gray"
        size="compact-sm"
        w="fit-content"
        px={0}
        onClick={() => {
          uploading.forget();
          void navigate({ to: "/new", search: { scene: scene.id } });
        }}
      >
        {t("sendNew")}
      </Button>
    </Stack>
  );
}

function Stage({ version, scene }: Both) {
  const { t } = useTranslation("scenes");
  switch (version.status) {
    case "uploading":
      return <Again version={version} scene={scene} />;
    case "whole":
      return <Inspecting version={version} />;
    case "refused":
      return (
        <>
          <Alert color="red" title={t("refused")} role="alert">
            {version.refusal}
          </Alert>
          <AddFiles version={version} dependencies={[]} />
        </>
      );
    case "inspected":
      return <Inspected version={version} scene={scene} />;
  }
}

function Inspected({ version, scene }: Both) {
  const report = api.useQuery(
    "get",
    "/api/v1/scene-versions/{version_id}/report",
    { params: { path: { version_id: version.id } } },
    { staleTime: Number.POSITIVE_INFINITY },
  );
  const [draft, change] = useDraft(scene.id, scene.name);
  if (report.error) return <Failure error={report.error} again={() => void report.refetch()} />;
  if (!report.data) return <Waiting />;
  return (
    <>
      <Report key={version.id} report={report.data} />
      <Needs
        version={version}
        dependencies={report.data.dependencies}
        isIncomplete={isIncomplete(report.data)}
        allowMissing={draft.allowMissing}
        setAllowMissing={(allowMissing) => change({ allowMissing })}
      />
      <OrderForm version={version} scene={scene} report={report.data} draft={draft} change={change} />
    </>
  );
}

/** An upload that ends while another page is shown says so there. */
let told: string | undefined;
uploading.subscribe(() => {
  const { phase, version, destination } = uploading.read();
  if (phase !== "sent" || !version || told === version.id) return;
  told = version.id;
  if (location.pathname === "/new") return;
  const name = destination?.name ?? destination?.entry ?? "";
  notifications.show({ color: "teal", message: i18next.t("sentElsewhere", { ns: "scenes", name }) });
});
