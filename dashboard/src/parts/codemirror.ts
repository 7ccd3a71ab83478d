// The editor itself, loaded when one is opened: YAML with completion from the server's schemas and problems at their lines.
//
// Problems have two sources: the schema, while the user types, and the server's response to this exact text, discarded with
// the next change. Tab leaves the editor, so that keyboard users are not trapped in it.
import { acceptCompletion, autocompletion, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, ensureSyntaxTree, HighlightStyle, indentOnInput, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { forceLinting, linter, lintGutter, lintKeymap, type Diagnostic } from "@codemirror/lint";
import { EditorState, Prec, StateEffect } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { formOf, written, type FormField } from "../logic/form.ts";
import { partsOf, type Part } from "../logic/manifest.ts";
import { located, spanOf, type Located, type Problem } from "../logic/problems.ts";
import { below, fields, unknownFields, values, type Document, type Schema } from "../logic/schema.ts";
import { visible } from "../logic/text.ts";
import { broken, lineOf, typing } from "../logic/yamltree.ts";
import { nonce } from "../nonce.ts";

const LONGEST_PARSE = 50; // milliseconds

const learnt = StateEffect.define<null>();

export interface Known {
  document: Document;
  schema: Schema;
}

export interface Editor {
  text: () => string;
  set: (text: string) => void;
  /** Show the server's problems at their places. */
  tell: (problems: readonly Problem[]) => Located[];
  /** The objects of the text. */
  parts: () => Part[];
  /** The schemas of the kinds in the text, by their documents. */
  know: (known: ReadonlyMap<number, Known>) => void;
  /** The fields that a form shows, of the first object that has some. */
  form: () => FormField[];
  write: (field: FormField, value: string) => void;
  goTo: (line: number) => void;
  close: () => void;
}

export interface Options {
  place: HTMLElement;
  text: string;
  label: string;
  changed: (text: string) => void;
  preview: () => void;
}

export function edit({ place, text, label, changed, preview }: Options): Editor {
  let known: ReadonlyMap<number, Known> = new Map();
  let said: readonly Problem[] = [];
  const view = new EditorView({
    parent: place,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (preview(), true) }])),
        keymap.of([{ key: "Tab", run: acceptCompletion }, ...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
        lineNumbers(), lintGutter(), history(), drawSelection(), highlightActiveLine(), highlightSpecialChars(), bracketMatching(), indentOnInput(),
        yaml(), syntaxHighlighting(COLOURS), LOOK,
        autocompletion({ override: [(context) => complete(context, partsOf(syntaxTree(context.state), context.state.doc.toString()), known)], icons: false }),
        linter((each) => diagnostics(each, known, said), { delay: 300, needsRefresh: (update) => update.transactions.some((each) => each.effects.some((effect) => effect.is(learnt))) }),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          said = [];
          changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    set: (wanted) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: wanted } }),
    tell: (problems) => {
      said = problems;
      lintAgain(view);
      return hinted(located(problems, treeOf(view), view.state.doc.toString()), unknownIn(view, known));
    },
    parts: () => partsOf(treeOf(view), view.state.doc.toString()),
    know: (wanted) => {
      known = wanted;
      lintAgain(view);
    },
    form: () => {
      const [tree, all] = [treeOf(view), view.state.doc.toString()];
      return partsOf(tree, all).map((each) => formOf(tree, all, each.document)).find((each) => each.length) ?? [];
    },
    write: ({ name, from, to }, value) => view.dispatch({ changes: { from, to, insert: written(name, value) } }),
    goTo: (line) => {
      view.dispatch({ selection: { anchor: spanOf(view.state.doc.toString(), line).from }, scrollIntoView: true });
      view.focus();
    },
    close: () => view.destroy(),
  };
}

/** Lint the same text again at once: its schema or its problems changed. */
function lintAgain(view: EditorView): void {
  view.dispatch({ effects: learnt.of(null) });
  forceLinting(view); // does nothing on its own while no change is waiting to be looked at
}

function treeOf(view: EditorView) {
  return ensureSyntaxTree(view.state, view.state.doc.length, LONGEST_PARSE) ?? syntaxTree(view.state);
}

function diagnostics(view: EditorView, known: ReadonlyMap<number, Known>, said: readonly Problem[]): Diagnostic[] {
  const [text, tree] = [view.state.doc.toString(), treeOf(view)];
  const place = broken(tree);
  const unparsed = place === null ? [] : [{ ...spanOf(text, lineOf(text, place)), message: "This does not parse as YAML." }];
  return [...located(said, tree, text), ...unparsed, ...(place === null ? unknownIn(view, known) : [])].map(({ from, to, message }) => ({ from, to, message: visible(message), severity: "error" }));
}

function unknownIn(view: EditorView, known: ReadonlyMap<number, Known>): Located[] {
  return [...known].flatMap(([at, { document, schema }]) => unknownFields(document, schema, treeOf(view), view.state.doc.toString(), at));
}

/** The server's problems, with the schema's suggestions for the same places. */
function hinted(said: Located[], hints: Located[]): Located[] {
  return said.map((each) => {
    const hint = hints.find((one) => one.from === each.from);
    return hint ? { ...each, message: `${each.message}; ${hint.message}` } : each;
  });
}

/** Completion within the object at the cursor; the text after the last object belongs to it, too. */
function complete(context: CompletionContext, parts: readonly Part[], all: ReadonlyMap<number, Known>): CompletionResult | null {
  const part = parts.findLast((each) => each.from <= context.pos);
  const known = part && all.get(part.document);
  if (!known) return null;
  const { document, schema } = known;
  const own = typing(context.state.doc.sliceString(part.from), context.pos - part.from);
  const at = own && { ...own, from: own.from + part.from };
  const around = at && below(document, schema, at.path);
  if (!at || !around || (!context.explicit && at.from === context.pos)) return null;
  if (at.field) {
    const value = below(document, around, [at.field]);
    return value ? { from: at.from, options: values(value).map((label) => ({ label })) } : null;
  }
  const options = fields(document, around).map((each) => ({
    label: each.name, detail: `${each.type}${each.required ? ", required" : ""}`, info: each.description, apply: `${each.name}: `, boost: each.required ? 1 : 0,
  }));
  return { from: at.from, options, validFor: /^[\w./-]*$/ };
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--ok)" },
  { tag: [tags.comment, tags.meta], color: "var(--muted)" },
]);

const MONO = { fontFamily: "ui-monospace, monospace" };
const LOOK = EditorView.theme({
  "&": { backgroundColor: "var(--bg)", color: "var(--text)", border: "1px solid var(--control)", borderRadius: "4px", fontSize: "14px" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { ...MONO, minHeight: "240px", maxHeight: "max(240px, 48vh)", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "0" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--surface)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--raised)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--raised)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--control)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": MONO,
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--bg)" },
  ".cm-completionDetail": { color: "inherit" },
  ".cm-completionInfo": { maxWidth: "420px" },
});
