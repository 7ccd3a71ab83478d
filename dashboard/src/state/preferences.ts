// Preferences, kept in this browser: the theme, single-key shortcuts, and whether the rail is folded.
import { effect, signal } from "@preact/signals";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const THEME = "tarmac-theme";
const LETTERS = "tarmac-letters";
const FOLDED = "tarmac-folded";

export const theme = signal<Theme>(THEMES.find((each) => each === localStorage.getItem(THEME)) ?? "system");
export const letters = signal(localStorage.getItem(LETTERS) !== "off");
export const folded = signal(localStorage.getItem(FOLDED) === "on");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem(THEME, theme.value);
});
effect(() => localStorage.setItem(LETTERS, letters.value ? "on" : "off"));
effect(() => localStorage.setItem(FOLDED, folded.value ? "on" : "off"));
