/** Files for a version that lacks some: a new version is made, of which only they travel. */
import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { bytes, number } from "@/app/format";
import { Gauge } from "./Gauge";
import { Picker } from "./Picker";
import { type Dependency, isLacking, placed } from "./placing";
import { isBusy, type Purpose, uploading, useSending } from "./sending";

interface Props {
  version: Schema["VersionDetail"];
  dependencies: readonly Dependency[];
}

export function AddFiles({ version, dependencies }: Props) {
  const { t } = useTranslation("scenes");
  const sending = useSending();
  const purpose: Purpose = { kind: "add", version: version.id };
  const isOurs = sending.purpose.kind === "add" && sending.purpose.version === version.id;
  if (!isOurs && isBusy(sending)) return <Alert color="yellow">{t("another")}</Alert>;
  const files = isOurs && sending.phase !== "sent" ? sending.files : [];
  const isMended = version.status === "refused";
  return (
    <Stack gap="sm">
      {sending.destination === undefined || !isOurs ? (
        <Picker
          take={(more) => uploading.take(more, purpose)}
          title={t(isMended ? "dropMended" : "dropMissing")}
          hint={t(isMended ? "dropMendedHint" : "dropMissingHint")}
        />
      ) : null}
      {files.length > 0 && <Added version={version} dependencies={dependencies} />}
    </Stack>
  );
}

function Added({ version, dependencies }: Props) {
  const { t } = useTranslation("scenes");
  const sending = useSending();
  const { files, destination } = sending;
  const { places, answered, others } = placed(files, dependencies, version.entry);
  const lacking = dependencies.filter(isLacking).length;
  const send = () => uploading.send({ scene: version.scene, entry: version.entry, over: version.id, places });
  return (
    <Stack gap="xs">
      {lacking > 0 && (
        <Text size="sm" fw={500} role="status">
          {answered.size > 0 ? t("answers", { found: number(answered.size), all: number(lacking) }) : t("answersNone")}{" "}
          {answered.size > 0 && others > 0 && t("others", { count: others })}
        </Text>
      )}
      <Gauge sending={sending} />
      <Group gap="xs">
        {destination === undefined && (
          <Button onClick={send}>
            {t("sendAdded", { count: files.length })} ({bytes(sending.bytes)})
          </Button>
        )}
        <Button variant="subtle" color="gray" onClick={() => uploading.forget()}>
          {t("startOver")}
        </Button>
      </Group>
    </Stack>
  );
}
