/** What a sender asks of the farm, over the network. */
import { farm, type Schema } from "@/api/client";
import type { Line } from "./plan";
import type { Grant, Patience, Wire } from "./sender";

const SILENT_MS = 60_000; // a line on which nothing moves for so long is dead, whatever it says
const LONGEST_MS = 30_000;

type Answer<T> = Promise<{ data?: T }>;

/** An answer of the farm has a body; one without is a proxy's in between, so it is as if nobody answered. */
async function body<T>(asked: Answer<T>): Promise<T> {
  const { data } = await asked;
  if (data === undefined) throw new TypeError("an answer without a body");
  return data;
}

/** Ask about one version. */
export function wireTo(versionId: string, signal: AbortSignal): Wire {
  const path = { version_id: versionId };
  return {
    async finished(digest) {
      const parts: { number: number; sha256: string }[] = [];
      for (let cursor: string | undefined; ; ) {
        const query = { digest, ...(cursor ? { cursor } : {}) };
        const page = await body(
          farm.GET("/api/v1/scene-versions/{version_id}/parts", { params: { path, query } }) as Answer<
            Schema["FinishedParts"]
          >,
        );
        parts.push(...page.results);
        if (page.there || page.next === null) return { there: page.there, parts };
        cursor = page.next;
      }
    },
    async sign(parts) {
      const { parts: grants } = await body(
        farm.POST("/api/v1/scene-versions/{version_id}/parts", { params: { path }, body: { parts } }),
      );
      return grants;
    },
    put: (request, content, onBytes) => put(request, content, onBytes, signal),
    async confirm(digests) {
      const answer = await body(
        farm.POST("/api/v1/scene-versions/{version_id}/blobs", { params: { path }, body: { digests } }),
      );
      return { isWhole: answer.status !== "uploading", blobs: answer.blobs };
    },
  };
}

/** Send a signed request; XMLHttpRequest, because only it says how much has gone. 0: nobody answered. */
function put(
  request: NonNullable<Grant["request"]>,
  content: Blob,
  onBytes: (sent: number) => void,
  signal: AbortSignal,
): Promise<number> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(0);
    const line = new XMLHttpRequest();
    const stop = () => line.abort();
    let silent = setTimeout(stop, SILENT_MS);
    line.upload.onprogress = ({ loaded }) => {
      clearTimeout(silent);
      silent = setTimeout(stop, SILENT_MS);
      onBytes(Math.min(loaded, content.size));
    };
    line.onloadend = () => {
      clearTimeout(silent);
      signal.removeEventListener("abort", stop);
      resolve(line.status);
    };
    signal.addEventListener("abort", stop);
    line.open(request.method, request.url);
    for (const [name, value] of Object.entries(request.headers)) line.setRequestHeader(name, value);
    line.send(content);
  });
}

/** Begin a version, or find the one that the same files began before. */
export async function beginVersion(scene: string, entry: string, files: readonly Line[], act: string) {
  return await body(
    farm.POST("/api/v1/scenes/{scene_id}/versions", {
      params: { path: { scene_id: scene }, header: { "Idempotency-Key": act } },
      body: { entry, files: [...files] },
    }),
  );
}

/** Give the project's scene of that name, made if there is none. */
export async function findScene(project: string, name: string): Promise<string> {
  const found = await body(farm.GET("/api/v1/scenes", { params: { query: { project, name, limit: 1 } } }));
  const [scene] = found.results;
  if (scene) return scene.id;
  const header = { "Idempotency-Key": `scene-${project}-${name}`.slice(0, 200) };
  return (await body(farm.POST("/api/v1/scenes", { params: { header }, body: { project, name } }))).id;
}

/** Give all files of a version, page after page. */
export async function filesOf(versionId: string, tell: (count: number) => void = () => {}): Promise<Line[]> {
  const lines: Line[] = [];
  for (let cursor: string | undefined; ; ) {
    const query = { limit: 200, ...(cursor ? { cursor } : {}) };
    const page = await body(
      farm.GET("/api/v1/scene-versions/{version_id}/files", { params: { path: { version_id: versionId }, query } }),
    );
    for (const { path, digest, size, source } of page.results)
      lines.push({ path, digest, size, ...(source ? { source } : {}) });
    tell(lines.length);
    if (page.next === null) return lines;
    cursor = page.next;
  }
}

/** Wait, longer each time, and no two pages in step; at once again when the network is back. */
export const patience: Patience = (attempt, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(done, Math.min(LONGEST_MS, 500 * 2 ** Math.min(attempt, 10)) * (0.75 + Math.random() / 2));
    function done() {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    }
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
