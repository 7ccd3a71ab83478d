// The few fields of a Workload that a form can change, found in its text: reading and replacing them there keeps comments,
// order and everything that the form does not know.
import type { SyntaxNode, Tree } from "@lezer/common";
import { isMapping, isSequence, items, pairs, root, scalar } from "./yamltree.ts";

const NAMES = ["image", "port", "cities", "replicas", "cpu", "memory"] as const;
export type FieldName = (typeof NAMES)[number];

export interface FormField {
  name: FieldName;
  label: string;
  value: string;
  /** Where the value is in the text. */
  from: number;
  to: number;
}

type Step = string | number;
const PATHS: Record<FieldName, { label: string; path: readonly Step[] }> = {
  image: { label: "Image", path: ["spec", "template", "spec", "runtime", "sandbox", "containers", 0, "image"] },
  port: { label: "Port", path: ["spec", "template", "spec", "runtime", "sandbox", "containers", 0, "ports", 0, "port"] },
  cities: { label: "Cities", path: ["spec", "placements", 0, "cityCodes"] },
  replicas: { label: "Instances per city", path: ["spec", "placements", 0, "scaleSettings", "minReplicas"] },
  cpu: { label: "CPU", path: ["spec", "template", "spec", "runtime", "resources", "requests", "cpu"] },
  memory: { label: "Memory", path: ["spec", "template", "spec", "runtime", "resources", "requests", "memory"] },
};

/** The fields that the text has; none for another kind. */
export function formOf(tree: Tree, text: string, document: number): FormField[] {
  const whole = root(tree, document);
  const kind = at(whole, text, ["kind"]);
  if (!kind || scalar(kind, text) !== "Workload") return [];
  return NAMES.flatMap((name) => {
    const { label, path } = PATHS[name];
    const node = at(whole, text, path);
    if (!node || isMapping(node)) return [];
    const value = isSequence(node) ? items(node).map((each) => scalar(each, text)).join(", ") : scalar(node, text);
    return [{ name, label, value, ...spanOf(node, text) }];
  });
}

/** The text of a value as YAML: cities as a list, anything that is not plain in quotes. */
export function written(name: FieldName, value: string): string {
  if (name === "cities") return `[${value.split(/[\s,]+/).filter(Boolean).map((each) => quoted(each.toUpperCase())).join(", ")}]`;
  if (name === "replicas" || name === "port") return /^\d+$/.test(value.trim()) ? value.trim() : quoted(value);
  return quoted(value.trim());
}

const AMOUNT = /^[1-9]\d*(?:m|k|[KMGTPE]i?)$/;

function quoted(value: string): string {
  if (AMOUNT.test(value)) return value;
  // Numbers and words such as NO are quoted: as a string the server takes them in every field of the form.
  return /^[A-Za-z][\w./@-]*(:[\w.-]+)?$/.test(value) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(value) ? value : JSON.stringify(value);
}

function at(node: SyntaxNode | null, text: string, path: readonly Step[]): SyntaxNode | null {
  let found = node;
  for (const step of path) {
    if (!found) return null;
    if (typeof step === "number") found = isSequence(found) ? (items(found)[step] ?? null) : null;
    else found = isMapping(found) ? (pairs(found, text).find((each) => each.name === step)?.value ?? null) : null;
  }
  return found;
}

/** Without the space around it: a block begins where the line before it ends. */
function spanOf(node: SyntaxNode, text: string): { from: number; to: number } {
  const own = text.slice(node.from, node.to);
  return { from: node.from + own.length - own.trimStart().length, to: node.from + own.trimEnd().length };
}
