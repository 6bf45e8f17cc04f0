/** The farm's public API as the browser speaks it: session cookie, chosen studio, sign against forgery. */
import createFetch, { type Middleware } from "openapi-fetch";
import createHooks from "openapi-react-query";
import { chosenStudio } from "@/app/session";
import { Refusal } from "./refusal";
import type { components, paths } from "./schema";

export type Schema = components["schemas"];

export function csrfToken(): string {
  return /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie)?.[1] ?? "";
}

const asThisPerson: Middleware = {
  onRequest({ request }) {
    const studio = chosenStudio();
    if (studio) request.headers.set("X-Farm-Studio", studio);
    if (request.method !== "GET") request.headers.set("X-CSRFToken", csrfToken());
    return request;
  },
  async onResponse({ response }) {
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    throw new Refusal({ ...problem, status: response.status });
  },
};

export const farm = createFetch<paths>({ baseUrl: location.origin, credentials: "same-origin" });
farm.use(asThisPerson);
export const api = createHooks(farm);

/** A name for one act, so that sending it twice does it once. */
export function once(): { "Idempotency-Key": string } {
  return { "Idempotency-Key": crypto.randomUUID() };
}

/** What the farm refuses is thrown by the client; an answer without a body would be the farm's fault. */
export function answered<T>({ data }: { data?: T }): T {
  if (data === undefined) throw new Error("an answer without a body");
  return data;
}
