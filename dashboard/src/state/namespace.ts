// The current namespace: the link's, or all. A user without the right to list namespaces sees one: their own.
import { effect, signal } from "@preact/signals";
import { Failure, json } from "../api/requests.ts";
import { session } from "../api/session.ts";
import { homeOf, withNamespace } from "../logic/spaces.ts";
import { route } from "./navigation.ts";

/** Empty: all of them. */
export const namespace = signal("");
/** All namespaces; null when the user may not list them, undefined until that is known. */
export const namespaces = signal<string[] | null | undefined>(undefined);

export function choose(name: string): void {
  namespace.value = name;
  location.hash = withNamespace(location.hash, name);
}

// A link says it, or else the page goes on with the one it has, and says so in the address.
effect(() => {
  const asked = route.value.query.get("ns");
  if (asked !== null) namespace.value = asked;
  else if (namespace.value) history.replaceState(null, "", withNamespace(location.hash || "#/planet", namespace.value));
});

let looking = "";
effect(() => {
  const token = session.value?.token ?? "";
  if (token === looking) return;
  looking = token;
  namespaces.value = undefined;
  if (token) void look(token);
});

async function look(token: string): Promise<void> {
  const found = await listed();
  if (looking !== token) return; // the user has changed meanwhile
  if (found === null && !namespace.value) namespace.value = await home();
  namespaces.value = found;
}

async function listed(): Promise<string[] | null> {
  try {
    const accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    const { items } = await json<{ items: { metadata: { name: string } }[] }>("/api/v1/namespaces?limit=500", { accept });
    return items.map((each) => each.metadata.name);
  } catch (error) {
    return error instanceof Failure && error.code === 403 ? null : [];
  }
}

async function home(): Promise<string> {
  const body = JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
  const asked = json<{ status?: { userInfo?: { username?: string } } }>("/apis/authentication.k8s.io/v1/selfsubjectreviews", { method: "POST", type: "application/json", body });
  const username = await asked.then((answer) => answer.status?.userInfo?.username ?? "", () => "");
  return homeOf(username) || (session.value?.namespace ?? "default");
}
