/** Times, money, sizes: in the reader's language and zone; UTC on hover. */
import { Text, Tooltip } from "@mantine/core";
import i18next from "i18next";
import { useMe } from "./me";

export function money(micro: number, currency: string, language = i18next.language): string {
  const small = micro !== 0 && Math.abs(micro) < 10_000;
  return new Intl.NumberFormat(language, {
    style: "currency",
    currency,
    maximumFractionDigits: small ? 6 : 2,
    ...(small ? { minimumFractionDigits: 2 } : {}),
  }).format(micro / 1_000_000);
}

/** An amount at a glance: cents are enough, and of less than a cent two digits. */
export function moneyAbout(micro: number, currency: string, language = i18next.language): string {
  const small = micro !== 0 && Math.abs(micro) < 10_000;
  const digits = small ? { maximumSignificantDigits: 2 } : {};
  return new Intl.NumberFormat(language, { style: "currency", currency, ...digits }).format(micro / 1_000_000);
}

export function number(value: number, language = i18next.language): string {
  return new Intl.NumberFormat(language).format(value);
}

export function bytes(count: number, language = i18next.language): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"] as const;
  let rest = count;
  let unit = 0;
  while (rest >= 1000 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return new Intl.NumberFormat(language, {
    style: "unit",
    unit: units[unit] ?? "byte",
    unitDisplay: unit === 0 ? "long" : "short",
    maximumFractionDigits: rest < 10 && unit > 0 ? 1 : 0,
  }).format(rest);
}

type Unit = "second" | "minute" | "hour" | "day";

/** Seconds as people say them: "4.2 s", "3 min 20 s", "2 h 05 min". */
export function duration(seconds: number, language = i18next.language): string {
  const unit = (value: number, name: Unit, digits = 0) =>
    new Intl.NumberFormat(language, {
      style: "unit",
      unit: name,
      unitDisplay: "short",
      maximumFractionDigits: digits,
    }).format(value);
  if (seconds < 60) return unit(seconds, "second", seconds < 10 ? 1 : 0);
  const whole = Math.round(seconds);
  const both = (value: number, name: Unit, rest: number, restName: Unit) =>
    rest ? `${unit(value, name)} ${unit(rest, restName)}` : unit(value, name);
  if (whole < 3600) return both(Math.floor(whole / 60), "minute", whole % 60, "second");
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return both(Math.floor(minutes / 60), "hour", minutes % 60, "minute");
  return both(Math.floor(minutes / 1440), "day", Math.floor((minutes % 1440) / 60), "hour");
}

/** What nobody knows to the second is not said to the second: "20 min", "2 h 10 min". */
export function durationAbout(seconds: number, language = i18next.language): string {
  const steps = [
    [60, 5],
    [3600, 60],
    [86_400, 600],
  ] as const;
  const step = steps.find(([below]) => seconds < below)?.[1] ?? 3600;
  return duration(Math.max(step, Math.round(seconds / step) * step), language);
}

/** A moment in the viewer's zone, without the year where it is this one; in UTC on hover. */
export function Time({ at, seconds = false }: { at: string; seconds?: boolean }) {
  const zone = useMe()?.zone || undefined;
  const moment = new Date(at);
  const isThisYear = moment.getFullYear() === new Date().getFullYear();
  const shown = new Intl.DateTimeFormat(i18next.language, {
    ...(isThisYear ? {} : { year: "numeric" }),
    month: "short",
    day: "numeric",
    hour: "numeric",
    minute: "2-digit",
    ...(seconds ? { second: "2-digit" } : {}),
    ...(zone ? { timeZone: zone } : {}),
  }).format(moment);
  return (
    <Tooltip label={`${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`}>
      <Text component="time" dateTime={at} inherit span>
        {shown}
      </Text>
    </Tooltip>
  );
}
