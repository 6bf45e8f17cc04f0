/** A version that has not arrived whole: after a reload its folder is chosen again, and only what is missing goes. */
import { Alert, Button, Group, Paper, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { bytes, number } from "@/app/format";
import { Waiting } from "@/app/states";
import { Gauge } from "./Gauge";
import { Picker } from "./Picker";
import { isBusy, type Purpose, uploading, useSending } from "./sending";

export function Again({ version, scene }: { version: Schema["VersionDetail"]; scene: Schema["SceneDetail"] }) {
  const { t } = useTranslation("scenes");
  const sending = useSending();
  const purpose: Purpose = { kind: "again", version: version.id };
  const isOurs =
    sending.version?.id === version.id || (sending.purpose.kind === "again" && sending.purpose.version === version.id);
  // It has arrived, and the farm is asked what it is now.
  if (isOurs && sending.phase === "sent") return <Waiting />;
  if (isOurs && sending.phase !== "empty")
    return (
      <Paper withBorder p="md">
        <Stack gap="xs">
          <Group justify="space-between">
            <Text fw={500}>{t("picked", { count: sending.files.length, size: bytes(sending.bytes) })}</Text>
            {!isBusy(sending) && (
              <Button size="xs" variant="subtle" color="gray" onClick={() => uploading.forget()}>
                {t("startOver")}
              </Button>
            )}
          </Group>
          <Gauge sending={sending} />
          <Text size="sm" c="dimmed">
            {t("leave")}
          </Text>
        </Stack>
      </Paper>
    );
  if (isBusy(sending)) return <Alert color="yellow">{t("another")}</Alert>;
  const figures = { number: number(version.number), count: version.file_count, size: bytes(version.byte_count) };
  return (
    <Picker
      take={(files) => uploading.take(files, purpose, { scene: version.scene, entry: version.entry, over: version.id })}
      title={t("dropAgain", { name: scene.name })}
      hint={t("dropAgainHint", figures)}
      isLarge
    />
  );
}
