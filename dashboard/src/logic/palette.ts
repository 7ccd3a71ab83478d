// Matches of the palette for the typed text: the beginning of a name first, then of a word in it, then letters in their order.

const MOST = 50;

export interface Choice {
  label: string;
  /** Its type: a view, an action, a kind. */
  what: string;
  href?: string;
  act?: () => void;
}

/** Actions on one object, by its kind: each is a link that opens the dialog, in which the user confirms. */
const ACTIONS: Record<string, readonly (readonly [verb: string, act: string])[]> = {
  Workload: [["Scale", "scale"], ["Restart", "restart"], ["Undo rollout of", "undo"]],
  Node: [["Cordon", "cordon"]],
};
const VERB = 3; // letters of a verb that have to be typed

/** The actions on these objects with a verb that starts with the text. */
export function actionsOn(objects: readonly Choice[], typed: string): Choice[] {
  const verb = typed.trim().toLowerCase().split(/\s/)[0] ?? "";
  if (verb.length < VERB) return [];
  return objects.flatMap(({ label, what, href }) => (ACTIONS[what] ?? []).filter(([name]) => name.toLowerCase().startsWith(verb))
    .map(([name, act]): Choice => ({ label: `${name} ${label}`, what: "action", href: `${href ?? ""}?do=${act}` })));
}

export function offered(choices: readonly Choice[], typed: string): Choice[] {
  const wanted = typed.trim().toLowerCase();
  const scored = choices.map((each, index) => ({ each, index, score: score(each, wanted) }));
  const found = scored.filter(({ score: points }) => points > 0).sort((a, b) => b.score - a.score || a.index - b.index);
  return found.slice(0, MOST).map(({ each }) => each);
}

function score({ label, what }: Choice, wanted: string): number {
  const text = `${label} ${what}`.toLowerCase();
  if (!wanted || text.startsWith(wanted)) return 4;
  const at = text.indexOf(wanted);
  if (at > 0) return /[\w]/.test(text[at - 1] ?? "") ? 2 : 3;
  let from = 0;
  for (const letter of wanted) {
    from = label.toLowerCase().indexOf(letter, from) + 1;
    if (from === 0) return 0;
  }
  return 1;
}
