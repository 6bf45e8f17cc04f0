/** A form from an OpenJD template's parameters. Pure. */

/** As OpenJD writes them; the farm's own document leaves them free. */
export interface Parameter {
  name: string;
  type: "STRING" | "PATH" | "INT" | "FLOAT";
  description?: string;
  default?: string | number;
  allowedValues?: (string | number)[];
  minValue?: number | string;
  maxValue?: number | string;
  minLength?: number;
  userInterface?: { control?: string; label?: string; groupLabel?: string; decimals?: number };
}

export type Control = "text" | "lines" | "choice" | "check" | "number";

export interface Group {
  label: string;
  parameters: Parameter[];
}

/** Those that a person fills in, by their groups: neither hidden ones, nor files that the upload gives. */
export function groupsOf(all: readonly Parameter[]): Group[] {
  const groups = new Map<string, Parameter[]>();
  for (const each of all) {
    if (each.type === "PATH" || each.userInterface?.control === "HIDDEN") continue;
    const label = each.userInterface?.groupLabel ?? "";
    groups.set(label, [...(groups.get(label) ?? []), each]);
  }
  return [...groups].map(([label, parameters]) => ({ label, parameters }));
}

/** What to fill a parameter in with: what its template asks for, or what fits its type. */
export function controlOf({ type, allowedValues, userInterface }: Parameter): Control {
  switch (userInterface?.control) {
    case "CHECK_BOX":
      return "check";
    case "DROPDOWN_LIST":
      return "choice";
    case "MULTILINE_EDIT":
      return "lines";
    case "SPIN_BOX":
      return "number";
  }
  if (allowedValues) return "choice";
  return type === "INT" || type === "FLOAT" ? "number" : "text";
}

export const labelOf = ({ name, userInterface }: Parameter) => userInterface?.label ?? name;

/** Whether a parameter has nothing of its own to fall back on. */
export const isNeeded = (parameter: Parameter) => parameter.default === undefined;

/** The two values of a check box: the template's own words for yes and no. */
export function checkValues({ allowedValues }: Parameter): { yes: string; no: string } {
  const values = (allowedValues ?? ["true", "false"]).map(String);
  const yes = values.find((each) => /^(true|yes|on|1)$/i.test(each)) ?? values[0] ?? "true";
  return { yes, no: values.find((each) => each !== yes) ?? "false" };
}

/** Only what was filled in is said; all else stays as the template and the scene have it. */
export function written(values: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values)
      .map(([name, value]) => [name, value.trim()] as const)
      .filter(([, value]) => value !== ""),
  );
}
