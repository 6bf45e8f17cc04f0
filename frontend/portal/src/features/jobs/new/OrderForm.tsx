/** What to render, how well, where, until when and for how much: a form made from the renderer's template. */
import { Box, Grid, Select, Stack, TagsInput, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { useMe } from "@/app/me";
import { Failure, Waiting } from "@/app/states";
import { useLookup } from "@/features/scenes/words";
import type { Change } from "./draft";
import { Field } from "./Field";
import { Fleets } from "./Fleets";
import { byField, type Draft, orderOf, splitTag, type Told } from "./order";
import { type Group, groupsOf, isNeeded, type Parameter } from "./parameters";
import { rowsFor } from "./Quote";
import { isComplaint, readFrames } from "./ranges";
import { Section } from "./Section";
import { Summary } from "./Summary";
import { chosenScene, isIncomplete, ownValue, type Scene, sizeAt } from "./scenery";
import { useChecked } from "./useChecked";
import { ScoutsChoice, scoutCount, When } from "./When";
import { useComplaint, useTold } from "./worded";

interface Props {
  version: Schema["VersionDetail"];
  scene: Schema["SceneDetail"];
  report: Schema["Report"];
  draft: Draft;
  change: Change;
}

const FIELDS = ["deadline", "budget_micro", "priority", "fleet", "scouts", "name", "sequence", "shot", "tags"];

export function OrderForm(props: Props) {
  const templates = api.useQuery("get", "/api/v1/templates", {}, { staleTime: 3_600_000 });
  const all = templates.data ?? [];
  const [name, setName] = useState(props.report.renderer.name);
  const template = all.find((each) => each.name === name) ?? all[0];
  if (templates.error) return <Failure error={templates.error} again={() => void templates.refetch()} />;
  if (!template) return <Waiting />;
  return (
    <>
      {all.length > 1 && (
        <Select
          aria-label={template.name}
          data={all.map((each) => each.name)}
          value={template.name}
          onChange={(next) => setName(next ?? template.name)}
          allowDeselect={false}
        />
      )}
      <Form key={template.name} {...props} template={template} />
    </>
  );
}

function Form({ version, scene, report, draft, change, template }: Props & { template: Schema["Template"] }) {
  const { t } = useTranslation("newJob");
  const navigate = useNavigate();
  const me = useMe();
  const groups = groupsOf(template.parameters as unknown as Parameter[]);
  const shown = chosenScene(report, draft.parameters.Scene);
  const filled = withFrames(draft, groups, shown, report);
  const frames = readFrames(filled.parameters.Frames ?? "");
  const hasFrames = "Frames" in filled.parameters;
  const about = { project: scene.project, version: version.id, renderer: template.name, zone: me?.zone ?? "" };
  const order = orderOf(filled, about);
  const lacking = groups
    .flatMap(({ parameters }) => parameters)
    .filter((each) => isNeeded(each) && !(filled.parameters[each.name] ?? "").trim());
  const isReadable = (!hasFrames || !isComplaint(frames)) && lacking.length === 0;
  const lacks = !draft.allowMissing && isIncomplete(report);
  // What it comes to and costs is told while files are still on their way, too.
  const checked = useChecked(lacks ? { ...order, allow_missing_files: true } : order, isReadable);
  const keyOf = useKey();
  const submit = api.useMutation("post", "/api/v1/jobs", {
    onSuccess: ({ id }) => void navigate({ to: "/jobs/$jobId", params: { jobId: id } }),
  });
  const text = JSON.stringify(order);
  const [refusedOrder, setRefusedOrder] = useState("");
  const refused =
    submit.error instanceof Refusal && refusedOrder === text ? (submit.error as Refusal) : checked.refusal;
  const fields = new Set([
    ...FIELDS,
    ...groups.flatMap(({ parameters }) => parameters.map(({ name }) => `parameters.${name}`)),
  ]);
  const { beside, rest } = refused && isReadable ? byField(refused, fields) : NOTHING_REFUSED;
  const error = useErrors(beside, hasFrames && isComplaint(frames) ? frames : undefined, lacking);
  const counted = isComplaint(frames) ? undefined : frames;
  const likely = rowsFor(checked.estimate, draft.fleet)[0];
  const unanswered = [submit.error, checked.error].find((each) => each && !(each instanceof Refusal));
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setRefusedOrder(text);
        submit.mutate({ body: order, params: { header: { "Idempotency-Key": keyOf(text) } } });
      }}
    >
      <Grid gap="md" align="flex-start">
        <Grid.Col span={{ base: 12, md: 8 }}>
          <Stack>
            <Parameters groups={groups} draft={filled} change={change} scene={shown} report={report} error={error} />
            <Section title={t("where")} isWide>
              <Fleets
                chosen={draft.fleet}
                choose={(fleet) => change({ fleet })}
                estimate={checked.estimate}
                error={error("fleet")}
              />
            </Section>
            <When draft={draft} change={change} error={error} frames={counted} likely={likely} />
            <ScoutsChoice draft={draft} change={change} error={error} frames={counted} />
            <Labels draft={draft} change={change} error={error} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 4 }}>
          <Box pos="sticky" top={68}>
            <Summary
              frames={hasFrames ? counted : undefined}
              check={checked.check}
              estimate={checked.estimate}
              fleet={draft.fleet}
              isBehind={checked.isBehind}
              rest={rest}
              error={unanswered}
              isMarked={!isReadable || beside.size > 0}
              lacks={lacks}
              isSubmitting={submit.isPending}
              scouts={scoutCount(draft, counted)}
              acceptNewer={draft.acceptNewer}
              setAcceptNewer={(acceptNewer) => change({ acceptNewer })}
            />
          </Box>
        </Grid.Col>
      </Grid>
    </form>
  );
}

const NOTHING_REFUSED = { beside: new Map<string, Told>(), rest: [] as Told[] };

/** One order has one key, however often it is sent: an answer that was lost is not a second job. */
function useKey(): (order: string) => string {
  const key = useRef({ order: "", key: "" });
  return (order) => {
    if (key.current.order !== order) key.current = { order, key: `order-${newId()}` };
    return key.current.key;
  };
}

function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The frames are filled in with the scene's own, until a person says others. */
function withFrames(draft: Draft, groups: Group[], scene: Scene | undefined, report: Schema["Report"]): Draft {
  const has = groups.some(({ parameters }) => parameters.some(({ name }) => name === "Frames"));
  if (!has || draft.parameters.Frames !== undefined) return draft;
  const own = scene ? (ownValue("Frames", scene, report)?.value ?? "") : "";
  return { ...draft, parameters: { ...draft.parameters, Frames: own } };
}

type ErrorOf = (field: string) => string | undefined;

/** What stands beside a field: what is wrong with the range as it is typed, what is not filled in, what the farm says. */
function useErrors(
  beside: Map<string, Told>,
  complaint: Extract<ReturnType<typeof readFrames>, { code: string }> | undefined,
  lacking: Parameter[],
): ErrorOf {
  const { t } = useTranslation("newJob");
  const told = useTold();
  const complain = useComplaint();
  return (field) => {
    if (field === "parameters.Frames" && complaint) return complain(complaint);
    if (lacking.some(({ name }) => field === `parameters.${name}`)) return t("refusals.required");
    const found = beside.get(field);
    return found && told(found);
  };
}

interface ParametersProps {
  groups: Group[];
  draft: Draft;
  change: Change;
  scene: Scene | undefined;
  report: Schema["Report"];
  error: ErrorOf;
}

function Parameters({ groups, draft, change, scene, report, error }: ParametersProps) {
  const lookup = useLookup("newJob");
  const titleOf = (label: string) => lookup(`groups.${label || "other"}`) ?? label;
  const hintOf = (name: string) => {
    const size =
      name === "ResolutionPercent" && scene ? sizeAt(scene, Number(draft.parameters[name]) || undefined) : "";
    const isSaid = name !== "Camera" || Boolean(draft.parameters.Camera);
    return isSaid ? lookup(`hints.${name}`, { size }) : undefined;
  };
  return groups.map(({ label, parameters }) => (
    <Section key={label} title={titleOf(label)}>
      {parameters.map((parameter) => (
        <Field
          key={parameter.name}
          parameter={parameter}
          own={scene && ownValue(parameter.name, scene, report)}
          value={draft.parameters[parameter.name] ?? ""}
          error={error(`parameters.${parameter.name}`)}
          hint={hintOf(parameter.name)}
          change={(value) => change({ parameters: { ...draft.parameters, [parameter.name]: value } })}
        />
      ))}
    </Section>
  ));
}

function Labels({ draft, change, error }: { draft: Draft; change: Change; error: ErrorOf }) {
  const { t } = useTranslation("newJob");
  const isWrong = draft.tags.some((tag) => splitTag(tag).some((part) => !part));
  return (
    <Section title={t("reports")}>
      <TextInput
        label={t("name")}
        value={draft.name}
        onChange={({ currentTarget }) => change({ name: currentTarget.value })}
        maxLength={200}
        error={error("name")}
      />
      <TextInput
        label={t("sequence")}
        value={draft.sequence}
        onChange={({ currentTarget }) => change({ sequence: currentTarget.value })}
        maxLength={200}
        error={error("sequence")}
      />
      <TextInput
        label={t("shot")}
        value={draft.shot}
        onChange={({ currentTarget }) => change({ shot: currentTarget.value })}
        maxLength={200}
        error={error("shot")}
      />
      <TagsInput
        label={t("tags")}
        placeholder={draft.tags.length === 0 ? t("tagsHint") : undefined}
        value={draft.tags}
        onChange={(tags) => change({ tags })}
        maxTags={50}
        error={isWrong ? t("tagWrong") : error("tags")}
      />
    </Section>
  );
}
