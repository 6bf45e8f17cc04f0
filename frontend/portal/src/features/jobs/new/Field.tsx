/** One parameter of a template, as a field: what is left open stays as the scene, or the template, has it. */
import { Checkbox, MultiSelect, NumberInput, Select, Textarea, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { useLookup } from "@/features/scenes/words";
import { checkValues, controlOf, labelOf, type Parameter } from "./parameters";
import type { Own } from "./scenery";

interface Props {
  parameter: Parameter;
  /** What the scene has for it, if it knows it. */
  own: Own | undefined;
  value: string;
  error: string | undefined;
  hint: string | undefined;
  change: (value: string) => void;
}

export function Field({ parameter, own, value, error, hint, change }: Props) {
  const lookup = useLookup("newJob");
  const { name, minValue, maxValue } = parameter;
  const standing = useStanding(parameter, own);
  const shared = {
    label: lookup(`labels.${name}`) ?? labelOf(parameter),
    description: hint || undefined,
    inputWrapperOrder: ["label", "input", "description", "error"] as ("label" | "input" | "description" | "error")[],
    error,
  };
  if (own?.isSeveral && own.choices)
    return (
      <MultiSelect
        {...shared}
        placeholder={value ? undefined : standing}
        data={own.choices}
        value={value ? value.split(",").map((each) => each.trim()) : []}
        onChange={(next) => change(next.join(","))}
        clearable
      />
    );
  switch (controlOf(parameter)) {
    case "check": {
      const { yes, no } = checkValues(parameter);
      return (
        <Checkbox
          label={shared.label}
          description={shared.description}
          error={error}
          checked={(value || String(parameter.default ?? no)) === yes}
          onChange={({ currentTarget }) => change(currentTarget.checked ? yes : no)}
        />
      );
    }
    case "number":
      return (
        <NumberInput
          {...shared}
          placeholder={standing}
          min={minValue === undefined ? undefined : Number(minValue)}
          max={maxValue === undefined ? undefined : Number(maxValue)}
          allowDecimal={parameter.type === "FLOAT"}
          clampBehavior="strict"
          hideControls={value === ""}
          suffix={name === "ResolutionPercent" ? " %" : undefined}
          value={value}
          onChange={(next) => change(String(next))}
        />
      );
    case "lines":
      return (
        <Textarea
          {...shared}
          placeholder={standing}
          autosize
          value={value}
          onChange={({ currentTarget }) => change(currentTarget.value)}
        />
      );
    default: {
      const choices = own?.choices ?? parameter.allowedValues?.map(String);
      if (choices)
        return (
          <Select
            {...shared}
            data={[
              { value: "", label: standing },
              ...choices
                .filter((each) => each !== String(parameter.default ?? ""))
                .map((each) => ({ value: each, label: each })),
            ]}
            value={value}
            onChange={(next) => change(next ?? "")}
            allowDeselect={false}
            searchable={choices.length > 12}
          />
        );
      return (
        <TextInput
          {...shared}
          placeholder={standing}
          value={value}
          onChange={({ currentTarget }) => change(currentTarget.value)}
        />
      );
    }
  }
}

/** What holds while nothing is filled in. */
function useStanding(parameter: Parameter, own: Own | undefined): string {
  const { t } = useTranslation("newJob");
  if (own) return own.value ? t("asSceneIs", { value: own.value }) : t("asScene");
  return parameter.default === undefined || parameter.default === ""
    ? ""
    : t("asTemplate", { value: String(parameter.default) });
}
