/** Signing in and passwords: django-allauth's headless answers, which are not in the farm's own document. */
import { csrfToken } from "./client";
import { Refusal } from "./refusal";

const ADDRESS = "/_allauth/browser/v1/";

interface Told {
  data?: unknown;
  errors?: { message: string; code: string; param?: string }[];
}

/** What the farm lets strangers do. */
export interface Config {
  account: { is_open_for_signup: boolean };
}

interface Manner {
  alsoFine?: number[];
  headers?: Record<string, string>;
}

/** Ask; gives the answer's data. Refused: a Refusal whose fields are the form's. 401 with a next step counts as done. */
export async function account<T = unknown>(
  method: string,
  path: string,
  body?: unknown,
  { alsoFine = [401], headers = {} }: Manner = {},
): Promise<T> {
  // The sign against forgery comes with the farm's page, and with this where the page came from elsewhere or it is gone.
  if (method !== "GET" && !csrfToken()) await fetch(`${ADDRESS}config`, { credentials: "same-origin" });
  const response = await fetch(`${ADDRESS}${path}`, {
    method,
    credentials: "same-origin",
    headers: { "Content-Type": "application/json", "X-CSRFToken": csrfToken(), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const told = (await response.json().catch(() => ({}))) as Told;
  if (response.ok || (alsoFine.includes(response.status) && !told.errors)) return told.data as T;
  const errors = told.errors ?? [];
  const first = errors[0];
  throw new Refusal({
    status: response.status,
    code: response.status === 429 ? "too-many-attempts" : (first?.code ?? "unknown"),
    ...(first ? { detail: first.message } : {}),
    errors: errors.map((e) => ({ field: e.param ?? null, code: e.code, detail: e.message, params: {} })),
  });
}

export interface SessionRow {
  id: number;
  ip: string;
  user_agent: string;
  created_at: number;
  last_seen_at?: number;
  is_current: boolean;
}
