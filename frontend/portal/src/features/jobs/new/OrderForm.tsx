import {
  Alert,
  Button,
  Checkbox,
  Group,
  NumberInput,
  Paper,
  Select,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, farm, once, type Schema } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { useMe } from "@/app/me";
import { Failure, useSentence, Waiting } from "@/app/states";
import { type Parameter, shownParameters, written } from "./parameters";

interface Values {
  parameters: Record<string, string>;
  name: string;
  priority: number;
  deadline: string;
  budget: number | "";
  sequence: string;
  shot: string;
  scouts: boolean;
  newer: boolean;
}

/** What to render, how well, for how much: a form made from the renderer's template. */
export function OrderForm({ version, allowMissing }: { version: Schema["VersionDetail"]; allowMissing: boolean }) {
  const templates = api.useQuery("get", "/api/v1/templates");
  const scene = api.useQuery("get", "/api/v1/scenes/{scene_id}", { params: { path: { scene_id: version.scene } } });
  const error = templates.error ?? scene.error;
  if (error) return <Failure error={error} />;
  const template = templates.data?.find((each) => each.name === "blender");
  if (!template || !scene.data) return <Waiting />;
  const parameters = shownParameters(template.parameters as unknown as Parameter[]);
  return <Form version={version} scene={scene.data} parameters={parameters} allowMissing={allowMissing} />;
}

interface FormProps {
  version: Schema["VersionDetail"];
  scene: Schema["SceneDetail"];
  parameters: Parameter[];
  allowMissing: boolean;
}

function Form({ version, scene, parameters, allowMissing }: FormProps) {
  const { t } = useTranslation("scenes");
  const sentence = useSentence();
  const navigate = useNavigate();
  const currency = useMe()?.currency ?? "";
  const form = useForm<Values>({
    initialValues: {
      parameters: {},
      name: scene.name,
      priority: 50,
      deadline: "",
      budget: "",
      sequence: "",
      shot: "",
      scouts: true,
      newer: false,
    },
  });
  const order = orderOf(form.values, { version, scene, allowMissing });
  const [checked] = useDebouncedValue(order, 400);
  const check = useQuery({
    queryKey: ["check", checked],
    queryFn: async () => (await farm.POST("/api/v1/jobs/check", { body: checked })).data ?? null,
    retry: false,
    placeholderData: (before) => before,
  });
  const submit = api.useMutation("post", "/api/v1/jobs", {
    onSuccess: (job) => void navigate({ to: "/jobs/$jobId", params: { jobId: job.id } }),
  });
  const refused = submit.error ?? check.error;
  const beside = refused instanceof Refusal ? fieldErrors(refused) : {};
  const elsewhere = refused !== null && Object.keys(beside).length === 0;
  return (
    <Paper withBorder p="md">
      <form onSubmit={form.onSubmit(() => submit.mutate({ body: order, params: { header: once() } }))}>
        <Stack>
          <Title order={2} size="h4">
            {t("order")}
          </Title>
          <Group grow align="flex-start" preventGrowOverflow={false} wrap="wrap">
            {parameters.map((parameter) => (
              <Field
                key={parameter.name}
                parameter={parameter}
                value={form.values.parameters[parameter.name] ?? ""}
                error={beside[parameter.name]}
                change={(value) => form.setFieldValue(`parameters.${parameter.name}`, value)}
              />
            ))}
          </Group>
          <Text size="sm" role="status">
            {check.data && t("preview", { count: check.data.tasks })}
          </Text>
          <Group grow align="flex-start" wrap="wrap">
            <NumberInput
              label={`${t("budget")} (${currency})`}
              description={t("budgetHint")}
              inputWrapperOrder={["label", "input", "description", "error"]}
              min={0}
              decimalScale={2}
              miw={160}
              error={beside.budget_micro}
              {...form.getInputProps("budget")}
            />
            <TextInput
              label={t("deadline")}
              type="datetime-local"
              miw={200}
              error={beside.deadline}
              {...form.getInputProps("deadline")}
            />
            <NumberInput
              label={t("priority")}
              description={t("priorityHint")}
              inputWrapperOrder={["label", "input", "description", "error"]}
              min={0}
              max={100}
              miw={120}
              error={beside.priority}
              {...form.getInputProps("priority")}
            />
            <TextInput label={t("sequence")} miw={120} error={beside.sequence} {...form.getInputProps("sequence")} />
            <TextInput label={t("shot")} miw={120} error={beside.shot} {...form.getInputProps("shot")} />
          </Group>
          <Checkbox label={t("scouts")} {...form.getInputProps("scouts", { type: "checkbox" })} />
          <Checkbox label={t("newer")} {...form.getInputProps("newer", { type: "checkbox" })} />
          {elsewhere && <Alert color="red">{sentence(refused)}</Alert>}
          {check.data && check.data.warnings.length > 0 && (
            <Alert color="yellow" title={t("problems")}>
              {check.data.warnings.map((warning) => (
                <Text size="sm" key={String(warning)}>
                  {String(warning)}
                </Text>
              ))}
            </Alert>
          )}
          <Button type="submit" loading={submit.isPending} w="fit-content">
            {t("submit")}
          </Button>
        </Stack>
      </form>
    </Paper>
  );
}

interface FieldProps {
  parameter: Parameter;
  value: string;
  error: string | undefined;
  change: (value: string) => void;
}

function Field({ parameter, value, error, change }: FieldProps) {
  const { t } = useTranslation("scenes");
  const label = parameter.userInterface?.label ?? parameter.name;
  if (parameter.allowedValues)
    return (
      <Select
        label={label}
        data={parameter.allowedValues.map((each) => ({
          value: each === parameter.default ? "" : each,
          label: each === parameter.default ? t("asScene") : each,
        }))}
        value={value}
        onChange={(next) => change(next ?? "")}
        allowDeselect={false}
        error={error}
        miw={180}
      />
    );
  if (parameter.type === "INT")
    return (
      <NumberInput
        label={label}
        placeholder={t("asScene")}
        min={parameter.minValue}
        max={parameter.maxValue}
        allowDecimal={false}
        value={value}
        onChange={(next) => change(String(next))}
        error={error}
        miw={140}
      />
    );
  return (
    <TextInput
      label={label}
      placeholder={t("asScene")}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
      error={error}
      miw={180}
    />
  );
}

interface Known {
  version: Schema["VersionDetail"];
  scene: Schema["SceneDetail"];
  allowMissing: boolean;
}

function orderOf(values: Values, { version, scene, allowMissing }: Known): Schema["OrderRequest"] {
  return {
    project: scene.project,
    scene_version: version.id,
    name: values.name,
    renderer: "blender",
    parameters: written(values.parameters),
    priority: values.priority,
    ...(values.deadline ? { deadline: new Date(values.deadline).toISOString() } : {}),
    ...(values.budget === "" ? {} : { budget_micro: Math.round(Number(values.budget) * 1_000_000) }),
    sequence: values.sequence,
    shot: values.shot,
    scouts: values.scouts ? "auto" : "none",
    accept_newer_renderer: values.newer,
    allow_missing_files: allowMissing,
  } as Schema["OrderRequest"];
}

/** The farm names a parameter's field as parameters.Frames; the form as Frames. */
function fieldErrors(refusal: Refusal): Record<string, string> {
  return Object.fromEntries(
    Object.entries(refusal.byField()).map(([field, sentence]) => [field.replace(/^parameters\./, ""), sentence]),
  );
}
