/** What of the New job page stands in its address: the scene a new version is for, and the version one is at. */
export interface NewSearch {
  scene?: string;
  version?: string;
}

const ID = /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i;
const id = (value: unknown) => (typeof value === "string" && ID.test(value) ? value : undefined);

export function readNewSearch(search: Record<string, unknown>): NewSearch {
  const [scene, version] = [id(search.scene), id(search.version)];
  return { ...(scene ? { scene } : {}), ...(version ? { version } : {}) };
}
