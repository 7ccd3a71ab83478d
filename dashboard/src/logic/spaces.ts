// Namespaces: the list of a kind in one of them, the account's own, and the one that a link asks for.

/** A list over all namespaces as the list of one. Other paths, and all namespaces, stay as they are. */
export function within(path: string, namespace: string): string {
  const found = namespace ? /^(\/api\/[^/]+|\/apis\/[^/]+\/[^/]+)\/([^/]+)$/.exec(path) : null;
  return found ? `${found[1]}/namespaces/${encodeURIComponent(namespace)}/${found[2]}` : path;
}

/** The namespace of a service account; empty for other users. */
export function homeOf(username: string): string {
  return /^system:serviceaccount:([^:]+):[^:]+$/.exec(username)?.[1] ?? "";
}

/** A fragment that names a namespace, or none. */
export function withNamespace(fragment: string, namespace: string): string {
  const [path = "", query = ""] = fragment.split("?", 2);
  const chosen = new URLSearchParams(query);
  if (namespace) chosen.set("ns", namespace);
  else chosen.delete("ns");
  return chosen.size ? `${path}?${chosen}` : path;
}
