// The objects of a text: enough of each to choose its API path. The server parses and judges the rest.
import type { SyntaxNode, Tree } from "@lezer/common";
import { documentsOf, isMapping, lineOf, pairs, scalar, valueIn } from "./yamltree.ts";

/** One object of a text of several, in block style, flow style or JSON. */
export interface Part {
  /** Its document, counted from 0 with the empty ones. */
  document: number;
  from: number;
  to: number;
  /** Its first line in the whole text, from 1. */
  line: number;
  text: string;
  apiVersion: string;
  kind: string;
  /** Empty where the manifest does not say it. */
  namespace: string;
  name: string;
}

const KEPT = new Set(["name", "namespace", "labels", "annotations"]);
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** The objects of a text, however unfinished each is. Documents of comments alone are none. */
export function partsOf(tree: Tree, text: string): Part[] {
  return documentsOf(tree).flatMap((node, document) => {
    const value = valueIn(node);
    if (!value) return [];
    const says = (at: SyntaxNode | null, name: string) => valueOf(at, text, name);
    const said = (at: SyntaxNode | null, name: string) => textOf(says(at, name), text);
    const metadata = says(value, "metadata");
    return [{
      document, from: node.from, to: node.to, line: lineOf(text, node.from), text: text.slice(node.from, node.to),
      apiVersion: said(value, "apiVersion"), kind: said(value, "kind"), name: said(metadata, "name"), namespace: said(metadata, "namespace"),
    }];
  });
}

/** The field without which no request can be made; empty with all of them. */
export function missing({ apiVersion, kind, name }: Part): string {
  if (!apiVersion) return "apiVersion: is missing, such as apiVersion: compute.datumapis.com/v1alpha";
  if (!kind) return "kind: is missing, such as kind: Workload";
  return name ? "" : "metadata.name: is missing";
}

function valueOf(at: SyntaxNode | null, text: string, name: string): SyntaxNode | null {
  return at && isMapping(at) ? (pairs(at, text).find((each) => each.name === name)?.value ?? null) : null;
}

function textOf(node: SyntaxNode | null, text: string): string {
  return node && /Literal$/.test(node.name) ? scalar(node, text) : "";
}

/** An object as the server writes it, without the fields that only the server writes. */
export function editable(yaml: string): string {
  let path: string[] = [];
  const kept = yaml.split("\n").filter((line) => {
    const [, indent = "", name = ""] = /^( *)([^\s:#'-][^\s:]*):/.exec(line) ?? [];
    // A line without a name of its own, and deeper lines, belong to the field above.
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
