// The kinds of the server, discovered once per session.
import { json } from "./requests.ts";
import { session } from "./session.ts";

export interface Kind {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
}

interface Discovery {
  items: { metadata: { name?: string }; versions: { version: string; resources?: Resource[] }[] }[];
}

interface Resource {
  resource: string;
  responseKind?: { kind: string };
  scope: "Namespaced" | "Cluster";
  verbs: string[];
}

const LIST = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
let known: { token: string; kinds: Promise<Kind[]> } | null = null;

/** Every kind, in the version that its group likes best. Raises Failure. */
export function kinds(): Promise<Kind[]> {
  const token = session.value?.token ?? "";
  if (known?.token === token) return known.kinds;
  const asked = Promise.all([json<Discovery>("/api", { accept: LIST }), json<Discovery>("/apis", { accept: LIST })]).then((found) => found.flatMap(kindsIn));
  known = { token, kinds: asked };
  asked.catch(() => (known = null)); // a failed request is repeated
  return asked;
}

function kindsIn(discovery: Discovery): Kind[] {
  return discovery.items.flatMap((group) => {
    const newest = group.versions[0];
    return (newest?.resources ?? []).map((each) => ({
      group: group.metadata.name ?? "", version: newest?.version ?? "", plural: each.resource, kind: each.responseKind?.kind ?? each.resource,
      namespaced: each.scope === "Namespaced", verbs: each.verbs,
    }));
  });
}

/** The API path of a kind. */
export function baseOf({ group, version }: { group: string; version: string }): string {
  return group ? `/apis/${group}/${version}` : `/api/${version}`;
}
