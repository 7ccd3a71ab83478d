// The identity of a manifest's object: enough to choose the API path. The server parses the rest.

export interface Identity {
  apiVersion: string;
  kind: string;
  /** As the manifest says; empty where it does not. */
  namespace: string;
  name: string;
}

const KEPT = new Set(["name", "namespace", "labels", "annotations"]);
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** The identity of a manifest, or its problem. */
export function identity(yaml: string): Identity | string {
  const documents = yaml.split(/^---\s*$/m).filter((each) => each.replace(/^\s*#.*$/gm, "").trim());
  if (documents.length !== 1) return documents.length ? "one object at a time: take the others out" : "there is nothing in it";
  const text = documents[0] ?? "";
  const [apiVersion, kind] = [field(text, "apiVersion", ""), field(text, "kind", "")];
  if (!apiVersion) return "apiVersion: is missing, such as apiVersion: compute.datumapis.com/v1alpha";
  if (!kind) return "kind: is missing, such as kind: Workload";
  const metadata = /^metadata:[ \t]*\n((?:[ \t]+.*\n?|\s*\n)+)/m.exec(text)?.[1] ?? "";
  const indent = /^([ \t]+)\S/m.exec(metadata)?.[1] ?? "";
  const name = field(metadata, "name", indent);
  return name ? { apiVersion, kind, name, namespace: field(metadata, "namespace", indent) } : "metadata.name: is missing";
}

/** The kind that is written, as `APIVERSION KIND`, however unfinished the rest is; empty where it is not said yet. */
export function kindWritten(yaml: string): string {
  const [apiVersion, kind] = [field(yaml, "apiVersion", ""), field(yaml, "kind", "")];
  return apiVersion && kind ? `${apiVersion} ${kind}` : "";
}

function field(block: string, name: string, indent: string): string {
  return new RegExp(`^${indent}${name}:[ \\t]*["']?([^"'\\s#]+)`, "m").exec(block)?.[1] ?? "";
}

/** An object as the server writes it, without the fields that only the server writes. */
export function editable(yaml: string): string {
  let path: string[] = [];
  const kept = yaml.split("\n").filter((line) => {
    const [, indent = "", name = ""] = /^( *)([^\s:#'-][^\s:]*):/.exec(line) ?? [];
    // A line without a name of its own, and what is further in, belongs to the field above.
    if (name && indent.length / 2 <= path.length && indent.length <= 4) path = [...path.slice(0, indent.length / 2), name];
    return !dropped(path);
  });
  return kept.join("\n").replace(/^  annotations:\n(?!    )/m, "");
}

function dropped([top, second, third]: string[]): boolean {
  if (top === "status") return true;
  if (top !== "metadata" || second === undefined) return false;
  return !KEPT.has(second) || (second === "annotations" && third === LAST_APPLIED);
}
