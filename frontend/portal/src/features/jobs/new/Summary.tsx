/** What the order comes to, what it will cost, and the button that orders it. */
import { Alert, Button, Checkbox, Paper, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { number } from "@/app/format";
import { useMay } from "@/app/me";
import { Failure } from "@/app/states";
import type { Told } from "./order";
import { Quote } from "./Quote";
import type { Frames } from "./ranges";
import { useTold } from "./worded";

interface Props {
  frames: Frames | undefined;
  check: Schema["Check"] | undefined;
  estimate: Schema["Estimate"] | undefined;
  fleet: string;
  isBehind: boolean;
  /** What is refused and is about no field of the form. */
  rest: Told[];
  /** Nobody answered, or something else than a refusal came. */
  error: unknown;
  isMarked: boolean;
  /** Files are missing, and nobody said that it may be rendered without them. */
  lacks: boolean;
  isSubmitting: boolean;
  scouts: number;
  acceptNewer: boolean;
  setAcceptNewer: (accept: boolean) => void;
}

export function Summary(props: Props) {
  const { t } = useTranslation("newJob");
  const told = useTold();
  const mayOrder = useMay("jobs:write");
  const { frames, check, estimate, fleet, isBehind, rest, error, isMarked, lacks, isSubmitting, scouts } = props;
  const isHeld = isMarked || lacks || rest.length > 0;
  const isNewer = rest.some(({ code }) => code === "renderer-newer") || props.acceptNewer;
  return (
    <Paper withBorder p="md" component="section" aria-label={t("summary")}>
      <Stack gap="md">
        <div>
          <Title order={2} size="h5">
            {t("summary")}
          </Title>
          <Text role="status" mih={25}>
            {frames && t("previewFrames", { count: frames.count })}
            {frames && check && ` ${t("inTasks", { tasks: t("previewTasks", { count: check.tasks }) })}`}
            {isBehind && frames && !isMarked && (
              <Text span c="dimmed" size="sm">
                {" "}
                {t("checking")}
              </Text>
            )}
          </Text>
        </div>
        {rest.map((each) => (
          <Alert key={`${each.code} ${each.detail}`} color="red" role="alert" p="xs">
            {told(each)}
          </Alert>
        ))}
        {isNewer && (
          <Checkbox
            label={t("newer")}
            description={t("newerHint")}
            checked={props.acceptNewer}
            onChange={({ currentTarget }) => props.setAcceptNewer(currentTarget.checked)}
          />
        )}
        {error !== undefined && <Failure error={error} />}
        <Quote estimate={estimate} fleet={fleet} />
        {mayOrder ? (
          <Stack gap={6}>
            <Button type="submit" loading={isSubmitting} disabled={isHeld} size="md">
              {scouts > 0 ? t("submitScouts", { count: scouts, frames: number(scouts) }) : t("submit")}
            </Button>
            {isHeld && (
              <Text size="sm" c="dimmed">
                {t(lacks ? "lacks" : "mendFirst")}
              </Text>
            )}
          </Stack>
        ) : (
          <Alert color="yellow" p="xs">
            {t("readOnly")}
          </Alert>
        )}
      </Stack>
    </Paper>
  );
}
