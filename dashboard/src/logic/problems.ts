// Splits the server's rejection of a manifest into problems, each with its field or line.
import type { Tree } from "@lezer/common";
import { steps } from "./fieldpaths.ts";
import { find, lineOf } from "./yamltree.ts";

export interface Problem {
  message: string;
  /** The field, as the server writes it. */
  field?: string;
  /** The line of the whole text, from 1, where the server named one. */
  line?: number;
  /** The document of the field; the first one if it is not said. */
  document?: number;
}

export interface Located {
  line: number;
  from: number;
  to: number;
  message: string;
}

interface Refusal {
  message: string;
  causes: { field?: string; message?: string }[];
}

const LINES = /line (\d+): ([^\n]+)/g;
const FIELDS = /(unknown|duplicate) field "([^"]+)"/g;
// `failed to create typed patch object (…): .spec.x: field not declared in schema`, or several of them, a line each
const TYPED = /(?:\): |\n\s*)(\.(?:[^\s:"]|"(?:[^"\\]|\\.)*")+): ([^\n]+)/g;

/** The problems in a refusal; at least one. */
export function problemsOf({ message, causes }: Refusal): Problem[] {
  const named = causes.filter((each) => each.field);
  if (named.length) return named.map((each) => ({ field: each.field ?? "", message: `${each.field}: ${each.message ?? ""}` }));
  if (message.includes("yaml:")) {
    const lines = [...message.matchAll(LINES)];
    if (lines.length) return lines.map(([, line, text = ""]) => ({ line: Number(line), message: text }));
  }
  const fields = [...message.matchAll(FIELDS)].map(([, what, field = ""]) => ({ field, message: `${field}: ${what} field` }));
  const typed = [...message.matchAll(TYPED)].map(([, field = "", text = ""]) => ({ field, message: `${field}: ${text}` }));
  return fields.length ? fields : typed.length ? typed : [{ message }];
}

/** The same for one object of a text of several: the server counted lines and fields from the beginning of that object. */
export function within(problems: readonly Problem[], { document, line: first }: { document: number; line: number }): Problem[] {
  return problems.map((each) => ({ ...each, document, ...(each.line ? { line: each.line + first - 1 } : {}) }));
}

/** The same with their places in the text; problems without a place are at the first line. */
export function located(problems: readonly Problem[], tree: Tree, text: string): Located[] {
  return problems.map(({ message, field, line, document = 0 }) => {
    const span = line ? spanOf(text, line) : (find(tree, text, steps(field ?? ""), document) ?? { from: 0, to: 0 });
    return { message, ...span, line: lineOf(text, span.from) };
  });
}

/** Where a line's own text is; the last one, should there be fewer. */
export function spanOf(text: string, line: number): { from: number; to: number } {
  const lines = text.split("\n");
  const index = Math.min(line, lines.length) - 1;
  const from = lines.slice(0, index).reduce((sum, each) => sum + each.length + 1, 0);
  const own = lines[index] ?? "";
  return { from: from + own.length - own.trimStart().length, to: from + own.length };
}
