/** What a person orders: as the form has it, as the farm takes it, and which field a refusal is about. Pure. */
import dayjs from "dayjs";
import timezone from "dayjs/plugin/timezone";
import utc from "dayjs/plugin/utc";
import type { Schema } from "@/api/client";
import type { Refusal } from "@/api/refusal";
import { written } from "./parameters";

dayjs.extend(utc);
dayjs.extend(timezone);

export type Order = Schema["OrderRequest"];
export type Scouts = "auto" | "list" | "none";

export interface Draft {
  name: string;
  parameters: Record<string, string>;
  fleet: string;
  priority: number;
  /** "2026-12-01 18:00:00" in the person's zone; "": none. */
  deadline: string;
  budget: number | "";
  sequence: string;
  shot: string;
  tags: string[]; // name=value
  scouts: Scouts;
  scoutFrames: string;
  acceptNewer: boolean;
  allowMissing: boolean;
}

export const blankDraft = (name: string): Draft => ({
  name,
  parameters: {},
  fleet: "",
  priority: 50,
  deadline: "",
  budget: "",
  sequence: "",
  shot: "",
  tags: [],
  scouts: "auto",
  scoutFrames: "",
  acceptNewer: false,
  allowMissing: false,
});

export interface About {
  project: string;
  version: string;
  renderer: string;
  /** The person's zone; "": this machine's. */
  zone: string;
}

export function orderOf(draft: Draft, { project, version, renderer, zone }: About): Order {
  return {
    project,
    scene_version: version,
    renderer,
    name: draft.name.trim(),
    parameters: written(draft.parameters),
    priority: draft.priority,
    deadline: draft.deadline ? momentOf(draft.deadline, zone) : null,
    budget_micro: draft.budget === "" ? null : Math.round(draft.budget * 1_000_000),
    sequence: draft.sequence.trim(),
    shot: draft.shot.trim(),
    tags: tagsOf(draft.tags),
    scouts: scoutsOf(draft),
    fleet: draft.fleet,
    accept_newer_renderer: draft.acceptNewer,
    allow_missing_files: draft.allowMissing,
  };
}

/** That part of an order on which its price depends, on any fleet. */
export function pricedPart(order: Order): Order {
  const { project, scene_version, renderer, parameters, accept_newer_renderer, allow_missing_files } = order;
  return { project, scene_version, renderer, parameters, accept_newer_renderer, allow_missing_files };
}

/** The moment that a wall clock shows in a zone. */
export function momentOf(text: string, zone: string): string {
  return (zone ? dayjs.tz(text, zone) : dayjs(text)).toISOString();
}

/** What a wall clock shows in a zone, so many hours from now, at a whole hour. */
export function hoursFrom(now: Date, hours: number, zone: string): string {
  const here = zone ? dayjs(now).tz(zone) : dayjs(now);
  return here.add(hours, "hour").startOf("hour").format("YYYY-MM-DD HH:mm:ss");
}

/** A wall clock's hour on a day from today on. */
export function clockAt(now: Date, days: number, hour: number, zone: string): string {
  const here = zone ? dayjs(now).tz(zone) : dayjs(now);
  return here.add(days, "day").hour(hour).startOf("hour").format("YYYY-MM-DD HH:mm:ss");
}

export function tagsOf(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(texts.map((text) => splitTag(text)).filter(([name, value]) => name && value));
}

/** A tag is written name=value. */
export function splitTag(text: string): [string, string] {
  const at = text.indexOf("=");
  return at < 0 ? [text.trim(), ""] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

function scoutsOf({ scouts, scoutFrames }: Draft): string {
  if (scouts !== "list") return scouts;
  return scoutFrames.replace(/\s+/g, "").replace(/,+$/, "") || "auto";
}

export interface Told {
  code: string;
  params: Record<string, unknown>;
  detail: string;
}

/** What the farm refuses, by the field of the form that it is about; the rest stands by itself. */
export function byField(refusal: Refusal, fields: ReadonlySet<string>): { beside: Map<string, Told>; rest: Told[] } {
  const beside = new Map<string, Told>();
  const rest: Told[] = [];
  for (const { field, code, params, detail } of refusal.fields) {
    const name = fieldOf(field ?? "", fields);
    const told = { code, params: (params ?? {}) as Record<string, unknown>, detail };
    if (name && !beside.has(name)) beside.set(name, told);
    else if (!name) rest.push(told);
  }
  if (refusal.fields.length === 0) rest.push({ code: refusal.code, params: refusal.params, detail: refusal.message });
  return { beside, rest };
}

/** "tags.client" is about tags, "parameters" about the frames, which are all that expands. */
function fieldOf(field: string, fields: ReadonlySet<string>): string | undefined {
  if (fields.has(field)) return field;
  if (field === "parameters") return "parameters.Frames";
  const top = field.split(/[.[]/)[0] ?? "";
  return fields.has(top) ? top : undefined;
}
