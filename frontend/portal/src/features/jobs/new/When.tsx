/** When an order shall be done, how much it may cost, and what goes first. */
import { NumberInput, Radio, Stack, TextInput } from "@mantine/core";
import { DateTimePicker } from "@mantine/dates";
import "@mantine/dates/styles.css";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { duration, money, number } from "@/app/format";
import { useMe } from "@/app/me";
import type { Change } from "./draft";
import { clockAt, type Draft, hoursFrom, momentOf, type Scouts } from "./order";
import type { Priced } from "./Quote";
import type { Frames } from "./ranges";
import { Section } from "./Section";

const FEW = 3; // that few are not split into scouts and the rest

interface Props {
  draft: Draft;
  change: Change;
  error: (field: string) => string | undefined;
  frames: Frames | undefined;
  /** The range that is likely to hold. */
  likely: Priced | undefined;
}

export function When({ draft, change, error, likely }: Props) {
  const { t } = useTranslation("newJob");
  const me = useMe();
  const zone = me?.zone ?? "";
  const now = new Date();
  const presets = [
    { value: hoursFrom(now, 2, zone), label: t("inHours", { count: 2 }) },
    { value: clockAt(now, 0, 20, zone), label: t("tonight") },
    { value: clockAt(now, 1, 9, zone), label: t("tomorrow") },
  ].filter(({ value }) => momentOf(value, zone) > now.toISOString());
  const isTight =
    likely && draft.deadline && Date.parse(momentOf(draft.deadline, zone)) < now.getTime() + likely.p50_s * 1000;
  const isPoor = likely && draft.budget !== "" && draft.budget * 1_000_000 < likely.p50_micro;
  return (
    <Section title={t("when")}>
      <DateTimePicker
        label={t("deadline")}
        description={
          isTight
            ? t("deadlineTight", { time: duration(likely.p50_s) })
            : t("deadlineHint", { zone: zone || Intl.DateTimeFormat().resolvedOptions().timeZone })
        }
        inputWrapperOrder={["label", "input", "description", "error"]}
        valueFormat="YYYY-MM-DD HH:mm"
        minDate={hoursFrom(now, 0, zone)}
        presets={presets}
        clearable
        value={draft.deadline || null}
        onChange={(value) => change({ deadline: value ?? "" })}
        error={error("deadline")}
      />
      <NumberInput
        label={t("budget")}
        description={
          isPoor ? t("budgetTight", { price: money(likely.p50_micro, me?.currency ?? "USD") }) : t("budgetHint")
        }
        inputWrapperOrder={["label", "input", "description", "error"]}
        leftSection={me?.currency}
        leftSectionWidth={54}
        min={0}
        max={9_000_000_000}
        decimalScale={2}
        thousandSeparator
        hideControls
        value={draft.budget}
        onChange={(value) => change({ budget: typeof value === "number" ? value : "" })}
        error={error("budget_micro")}
      />
      <NumberInput
        label={t("priority")}
        description={t("priorityHint")}
        inputWrapperOrder={["label", "input", "description", "error"]}
        min={0}
        max={100}
        step={10}
        allowDecimal={false}
        clampBehavior="strict"
        value={draft.priority}
        onChange={(value) => change({ priority: typeof value === "number" ? value : 50 })}
        error={error("priority")}
      />
    </Section>
  );
}

/** A few frames first: they tell what the rest will cost, before it is paid. */
export function ScoutsChoice({ draft, change, error, frames }: Omit<Props, "likely">) {
  const { t } = useTranslation("newJob");
  const policy = api.useQuery("get", "/api/v1/policy", {}, { staleTime: 3_600_000, retry: false });
  const isFew = frames !== undefined && frames.count <= FEW;
  const free = policy.data?.free_scout_gpu_seconds ?? 0;
  const auto = frames && [...new Set([frames.first, frames.middle, frames.last])].join(", ");
  return (
    <Section title={t("scouts")} isWide>
      <Radio.Group
        aria-label={t("scouts")}
        description={isFew ? t("scoutsFew") : t("scoutsHint", { minutes: number(Math.round(free / 60)) })}
        value={draft.scouts}
        onChange={(scouts) => change({ scouts: scouts as Scouts })}
        error={draft.scouts === "list" ? undefined : error("scouts")}
      >
        <Stack gap="xs" mt="xs">
          <Radio
            value="auto"
            label={t("scoutsAuto")}
            description={auto && !isFew && t("scoutsAre", { frames: auto })}
            disabled={isFew}
          />
          <Radio value="list" label={t("scoutsList")} disabled={isFew} />
          {draft.scouts === "list" && !isFew && (
            <TextInput
              ml={32}
              maw={260}
              aria-label={t("scoutFrames")}
              placeholder={auto}
              value={draft.scoutFrames}
              onChange={({ currentTarget }) => change({ scoutFrames: currentTarget.value })}
              error={error("scouts")}
            />
          )}
          <Radio value="none" label={t("scoutsNone")} disabled={isFew} />
        </Stack>
      </Radio.Group>
    </Section>
  );
}

/** How many frames go first. */
export function scoutCount({ scouts, scoutFrames }: Draft, frames: Frames | undefined): number {
  if (scouts === "none" || !frames || frames.count <= FEW) return 0;
  const named = scoutFrames.split(",").filter((each) => each.trim()).length;
  return scouts === "list" && named > 0 ? named : FEW;
}
