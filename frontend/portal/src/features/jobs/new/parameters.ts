/** A form from an OpenJD template's parameters. Pure. */
export interface Parameter {
  name: string;
  type: "STRING" | "PATH" | "INT" | "FLOAT";
  default?: string;
  allowedValues?: string[];
  minValue?: number;
  maxValue?: number;
  userInterface?: { control?: string; label?: string; groupLabel?: string };
}

/** Those that a person fills in: neither hidden, nor a file that the upload gives. */
export function shownParameters(all: readonly Parameter[]): Parameter[] {
  return all.filter((each) => each.type !== "PATH" && each.userInterface?.control !== "HIDDEN");
}

/** Only what was filled in is said; all else stays as the scene has it. */
export function written(values: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value.trim() !== ""));
}
