// Reads OpenAPI v3 for a manifest: permitted fields, their descriptions, and unknown fields in the text.
import type { SyntaxNode, Tree } from "@lezer/common";
import { isMapping, isSequence, items, lineOf, pairs, root } from "./yamltree.ts";
import type { Located } from "./problems.ts";

export interface Schema {
  $ref?: string;
  allOf?: Schema[];
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  required?: string[];
  enum?: unknown[];
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
  "x-kubernetes-preserve-unknown-fields"?: boolean;
}

export interface Document {
  components?: { schemas?: Record<string, Schema> };
}

export interface Field {
  name: string;
  type: string;
  description: string;
  required: boolean;
}

const NEAR = 2; // maximum edit distance of a suggestion

/** The schema of a kind. */
export function kindOf(document: Document, group: string, version: string, kind: string): Schema | null {
  const same = (each: Schema) => each["x-kubernetes-group-version-kind"]?.some((is) => is.group === group && is.version === version && is.kind === kind);
  return Object.values(document.components?.schemas ?? {}).find(same) ?? null;
}

/** A schema without references: follows a reference or the only part of an `allOf`, keeping its own description. */
export function resolved(document: Document, schema: Schema): Schema {
  const next = schema.$ref ? document.components?.schemas?.[schema.$ref.split("/").pop() ?? ""] : schema.allOf?.[0];
  if (!next) return schema;
  const found = resolved(document, next);
  return schema.description ? { ...found, description: schema.description } : found;
}

/** The schema below one, by the names of fields and `[]` for elements. */
export function below(document: Document, schema: Schema, path: readonly string[]): Schema | null {
  let at: Schema | null = resolved(document, schema);
  for (const step of path) {
    const next: Schema | undefined = step === "[]" ? at.items : (at.properties?.[step] ?? open(at));
    if (!next) return null;
    at = resolved(document, next);
  }
  return at;
}

/** The fields that one may write there, those that one must first. */
export function fields(document: Document, schema: Schema): Field[] {
  const found = Object.entries(schema.properties ?? {}).map(([name, each]) => {
    const own = resolved(document, each);
    return { name, type: own.type ?? "", description: own.description ?? "", required: schema.required?.includes(name) ?? false };
  });
  return found.sort((a, b) => Number(b.required) - Number(a.required) || a.name.localeCompare(b.name));
}

/** The values that are offered there. */
export function values(schema: Schema): string[] {
  return schema.type === "boolean" ? ["true", "false"] : (schema.enum ?? (schema.items?.enum ?? [])).map(String);
}

/** Fields that are written and that there are not. Nothing else is judged: short forms are the server's to know. */
export function unknownFields(document: Document, schema: Schema, tree: Tree, text: string, at = 0): Located[] {
  const found: Located[] = [];
  const look = (node: SyntaxNode | null, own: Schema | undefined, path: string): void => {
    if (!node || !own) return;
    const is = resolved(document, own);
    if (isSequence(node)) items(node).forEach((each, index) => look(each, is.items, `${path}[${index}]`));
    if (!isMapping(node)) return;
    for (const { name, key, value } of pairs(node, text)) {
      const next = is.properties?.[name] ?? open(is);
      if (next) look(value, next, path ? `${path}.${name}` : name);
      else if (is.properties && !is["x-kubernetes-preserve-unknown-fields"] && is.additionalProperties !== true)
        found.push({ line: lineOf(text, key.from), from: key.from, to: key.to, message: `${path || "the object"} has no field ${name}${meant(name, Object.keys(is.properties))}` });
    }
  };
  look(root(tree, at), schema, "");
  return found;
}

function open(schema: Schema): Schema | undefined {
  return typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
}

function meant(written: string, known: string[]): string {
  const near = known.map((each) => [distance(written.toLowerCase(), each.toLowerCase()), each] as const).sort(([a], [b]) => a - b)[0];
  return near && near[0] <= NEAR ? `: did you mean ${near[1]}?` : "";
}

/** How many letters have to be put in, taken out or replaced. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1)
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length] ?? 0;
}
