/** How far an upload is: by count and bytes, how quick, how long still; and what became of the network. */
import { Alert, Progress as Bar, Button, Group, Stack, Text } from "@mantine/core";
import { IconCloudOff, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { bytes, duration, number } from "@/app/format";
import { isBusy, type Sending, uploading } from "./sending";
import { Trouble } from "./Trouble";

export function Gauge({ sending }: { sending: Sending }) {
  const { t } = useTranslation("scenes");
  const { error, isPaused, isOffline, pace } = sending;
  const { value, text } = useFar(sending);
  if (error) return <Trouble error={error} again={() => uploading.goOn()} />;
  const more = [
    pace.rate ? t("pace", { rate: bytes(pace.rate) }) : "",
    pace.seconds !== undefined && value < 100 ? t("left", { time: duration(pace.seconds) }) : "",
  ].filter(Boolean);
  return (
    <Stack gap="xs">
      {isOffline && (
        <Alert color="yellow" icon={<IconCloudOff aria-hidden />} p="xs" role="status">
          {t("offline")}
        </Alert>
      )}
      <Bar value={value} animated={isBusy(sending) && !isOffline} aria-label={text} size="lg" />
      <Group justify="space-between" gap="xs" mih={30}>
        <Text size="sm" role="status">
          {isPaused ? t("paused") : [text, ...more].join(" · ")}
        </Text>
        {sending.phase === "read" ? null : isPaused ? (
          <Button size="xs" leftSection={<IconPlayerPlay size={14} aria-hidden />} onClick={() => uploading.goOn()}>
            {t("goOn")}
          </Button>
        ) : (
          <Button
            size="xs"
            variant="default"
            leftSection={<IconPlayerPause size={14} aria-hidden />}
            onClick={() => uploading.pause()}
          >
            {t("pause")}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

/** How far it is in percent, and in words. */
function useFar({ phase, read, sent, files, bytes: all }: Sending): { value: number; text: string } {
  const { t } = useTranslation("scenes");
  const share = (done: number, of: number) => (of > 0 ? (100 * done) / of : 100);
  if (phase === "read") return { value: 100, text: t("read", { count: files.length }) };
  if (phase === "reading") {
    const counts = { done: number(read.files), all: number(files.length) };
    return {
      value: share(read.bytes, all),
      text: t("reading", { ...counts, bytesDone: bytes(read.bytes), bytes: bytes(all) }),
    };
  }
  if (phase === "beginning" || !sent) return { value: 0, text: t("beginning") };
  if (sent.files === 0) return { value: 100, text: t("nothingToSend") };
  const counts = { done: number(sent.filesDone), all: number(sent.files) };
  return {
    value: share(sent.bytesDone, sent.bytes),
    text: t("sending", { ...counts, bytesDone: bytes(sent.bytesDone), bytes: bytes(sent.bytes) }),
  };
}
