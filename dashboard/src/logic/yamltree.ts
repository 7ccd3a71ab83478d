// Finds a field in YAML by its syntax tree, and the field being typed by its indentation.
//
// The tree is that of the editor's own parser and comes with errors in it, so everything here goes as far as it can:
// a path that ends early is found at the last part of it that is there.
import type { SyntaxNode, Tree } from "@lezer/common";
import type { Step } from "./fieldpaths.ts";

export interface Span {
  from: number;
  to: number;
}

const VALUES = new Set(["BlockMapping", "FlowMapping", "BlockSequence", "FlowSequence", "Literal", "QuotedLiteral", "BlockLiteral"]);

export function documentsOf(tree: Tree): SyntaxNode[] {
  return tree.topNode.getChildren("Document");
}

/** The value of a document. */
export function root(tree: Tree, document = 0): SyntaxNode | null {
  const node = documentsOf(tree)[document];
  return node ? valueIn(node) : null;
}

/** Pairs of a mapping: names and values. */
export function pairs(mapping: SyntaxNode, text: string): { name: string; key: SyntaxNode; value: SyntaxNode | null }[] {
  return mapping.getChildren("Pair").flatMap((pair) => {
    const key = pair.getChild("Key");
    return key ? [{ name: scalar(key, text), key, value: valueIn(pair) }] : [];
  });
}

export function items(sequence: SyntaxNode): SyntaxNode[] {
  return sequence.getChildren("Item").flatMap((item) => valueIn(item) ?? []);
}

export function isMapping(node: SyntaxNode): boolean {
  return node.name.endsWith("Mapping");
}

export function isSequence(node: SyntaxNode): boolean {
  return node.name.endsWith("Sequence");
}

/** The text of a scalar, without its quotes. */
export function scalar(node: SyntaxNode, text: string): string {
  return text.slice(node.from, node.to).trim().replace(/^(["'])(.*)\1$/s, "$2");
}

/** The place of the deepest existing part of a path; null in an empty document. */
export function find(tree: Tree, text: string, path: readonly Step[], document = 0): Span | null {
  let at = root(tree, document);
  let found: Span | null = at && trimmed(at, text);
  for (const step of path) {
    const next = at && stepInto(at, text, step);
    if (!next) break;
    found = next.span;
    at = next.value;
  }
  return found;
}

/** The first place that does not parse. */
export function broken(tree: Tree): number | null {
  let found: number | null = null;
  tree.iterate({ enter: (node) => (node.type.isError && found === null ? void (found = node.from) : undefined) });
  return found;
}

/** The line that a place is in, from 1. */
export function lineOf(text: string, place: number): number {
  return text.slice(0, place).split("\n").length;
}

function stepInto(at: SyntaxNode, text: string, step: Step): { span: Span; value: SyntaxNode | null } | null {
  if (typeof step === "string") {
    const pair = isMapping(at) ? pairs(at, text).find((each) => each.name === step) : undefined;
    return pair ? { span: { from: pair.key.from, to: pair.key.to }, value: pair.value } : null;
  }
  if (!isSequence(at)) return null;
  const elements = items(at);
  const value = typeof step === "number" ? elements[step] : elements.find((each) => has(each, text, step));
  return value ? { span: trimmed(value, text), value } : null;
}

function has(element: SyntaxNode, text: string, wanted: Record<string, string>): boolean {
  const own = isMapping(element) ? pairs(element, text) : [];
  return Object.entries(wanted).every(([name, value]) => own.some((each) => each.name === name && each.value && scalar(each.value, text) === value));
}

/** The value of a document, a pair or an item. */
export function valueIn(node: SyntaxNode): SyntaxNode | null {
  for (let child = node.firstChild; child; child = child.nextSibling) if (VALUES.has(child.name)) return child;
  return null;
}

/** Without the space before it, and no longer than its first line: blocks begin where the line before them ends. */
function trimmed(node: SyntaxNode, text: string): Span {
  const own = text.slice(node.from, node.to);
  const from = node.from + own.length - own.trimStart().length;
  const end = text.indexOf("\n", from);
  return { from, to: end < 0 ? node.to : Math.min(end, node.to) };
}

export interface Typing {
  /** Fields around the cursor; `[]` for an element of a list. */
  path: string[];
  /** The field of the typed value; empty while its name is. */
  field: string;
  /** The start of the typed text. */
  from: number;
}

const NAME = /^(\s*(?:- +)*)([\w./-]*)$/;
const VALUE = /^(\s*(?:- +)*)([\w./-]+):[ \t]+(\S*)$/;
const LINE = /^(\s*)((?:- +)*)([\w./-]+):(.*)$/;

/** The field being typed at a place; null where no field can be. By indentation, since half a line has no place in a tree. */
export function typing(text: string, place: number): Typing | null {
  const before = text.slice(0, place).split("\n");
  const line = before.pop() ?? "";
  const value = VALUE.exec(line);
  const name = value ?? NAME.exec(line);
  if (!name) return null;
  const lead = name[1] ?? "";
  const last = value ? (value[3] ?? "") : (name[2] ?? "");
  return { path: around(before, lead), field: value?.[2] ?? "", from: place - last.length };
}

function around(before: string[], lead: string): string[] {
  const path: string[] = [];
  // A field belongs to the nearest line above that begins further left; a dash may stand below the first letter of its list.
  let limit = lead.length;
  const climb = (dashes: number[]) => {
    for (const dash of dashes.reverse()) {
      if (dash >= limit) continue;
      path.unshift("[]");
      limit = dash + 1;
    }
  };
  climb(placesOf(lead, 0));
  for (const line of before.reverse()) {
    const [, indent = "", dashes = "", name = ""] = LINE.exec(line) ?? [];
    if (!name) continue;
    const column = indent.length + dashes.length;
    const listed = placesOf(dashes, indent.length);
    if (column < limit) {
      path.unshift(name);
      limit = column;
    }
    // The element that the line begins is ours only if we are within it, not when our own dash has begun another.
    if (listed.some((dash) => dash + 1 < limit)) climb(listed.filter((dash) => dash + 1 < limit));
    if (limit === 0) break;
  }
  return path;
}

function placesOf(lead: string, from: number): number[] {
  return [...lead.matchAll(/-/g)].map((each) => from + (each.index ?? 0));
}
