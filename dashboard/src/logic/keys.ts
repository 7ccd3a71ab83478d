// The key bindings of the page, in one place: keys, actions and their help.

export type Action =
  | { do: "palette" | "filter" | "help" | "down" | "up" | "next" | "previous" | "copy" }
  | { do: "go"; letter: string }
  | { do: "tab"; name: string };

export interface Pressed {
  key: string;
  ctrl: boolean;
  other: boolean;
  /** True while the user types into a field. */
  typing: boolean;
}

const SINGLE: Record<string, Action> = {
  "/": { do: "filter" }, "?": { do: "help" }, j: { do: "down" }, k: { do: "up" }, "]": { do: "next" }, "[": { do: "previous" },
  y: { do: "copy" }, l: { do: "tab", name: "logs" }, s: { do: "tab", name: "terminal" }, v: { do: "tab", name: "screen" }, w: { do: "tab", name: "why" },
};

export const HELP: [keys: string, does: string][] = [
  ["Ctrl-K", "any object, view or action"], ["/", "the filter"], ["?", "these keys"],
  ["j k", "down and up in a table; Enter opens"], ["[ ]", "the tab before, the next one"], ["y", "copies the view's command line"],
  ["l s v w", "logs, terminal, screen, why"], ["Ctrl-Enter", "previews a change"], ["Esc", "closes, leaves the filter"],
  ["Ctrl-]", "gives the focus back from a terminal"],
];

/** The action of a key. `going`: `g` was pressed just before; `letters`: single-key shortcuts are on. */
export function meaning(pressed: Pressed, going: boolean, letters: boolean): { action: Action | null; going: boolean } {
  const still = { action: null, going: false };
  if (pressed.ctrl && !pressed.other && pressed.key.toLowerCase() === "k") return { action: { do: "palette" }, going: false };
  if (!letters || pressed.typing || pressed.ctrl || pressed.other) return still;
  if (going) return { action: { do: "go", letter: pressed.key }, going: false };
  if (pressed.key === "g") return { action: null, going: true };
  return { action: SINGLE[pressed.key] ?? null, going: false };
}
