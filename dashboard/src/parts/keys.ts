// The key bindings of the current view. In terminals, screens and fields, keys belong to the focused element.
import { link } from "../logic/routes.ts";
import { meaning, type Action } from "../logic/keys.ts";
import { go } from "../state/navigation.ts";
import { letters } from "../state/preferences.ts";

const TYPING = "input, textarea, select, [contenteditable=true], .terminal, .screen";
const FILTER_WAIT = 3000; // milliseconds
const ROWS = "main tbody th a";

interface Openers {
  palette: () => void;
  help: () => void;
  views: readonly (readonly [string, string, string])[];
}

/** Listen until the returned function is called. */
export function listen({ palette, help, views }: Openers): () => void {
  let going = false;
  const open = (letter: string): void => {
    const view = views.find((each) => each[2] === letter)?.[0];
    if (view) go(link(view));
  };
  const act = (action: Action): void => {
    if (action.do === "palette") palette();
    else if (action.do === "help") help();
    else if (action.do === "filter") filter(performance.now() + FILTER_WAIT);
    else if (action.do === "copy") document.querySelector<HTMLElement>("main .command button")?.click();
    else if (action.do === "down") step(1);
    else if (action.do === "up") step(-1);
    else if (action.do === "next") tab(1);
    else if (action.do === "previous") tab(-1);
    else if (action.do === "tab") show(tabs().find((each) => each.textContent === action.name));
    else if (action.do === "go") open(action.letter);
  };
  const pressed = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (target.closest(".console, .screen")) return; // every key goes through
    if (event.key === "Escape" && target.matches("[data-filter]")) return target.blur();
    const dialog = document.querySelector("dialog[open]") !== null;
    const found = meaning({ key: event.key, ctrl: event.ctrlKey || event.metaKey, other: event.altKey, typing: dialog || target.closest(TYPING) !== null }, going, letters.value);
    going = found.going;
    if (!found.action) return;
    event.preventDefault();
    act(found.action);
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

/** Gives the filter the focus as soon as the view has one: a list shows it with its first rows. */
function filter(until: number): void {
  const found = document.querySelector<HTMLElement>("[data-filter]");
  if (found) found.focus();
  else if (performance.now() < until) requestAnimationFrame(() => filter(until));
}

function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>(ROWS)];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  (rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by] ?? null)?.focus();
}

function tabs(): HTMLAnchorElement[] {
  return [...document.querySelectorAll<HTMLAnchorElement>("main .tabs a")];
}

/** Counts from the address: the tab marked in the document may still be the one before the last key. */
function tab(by: number): void {
  const all = tabs();
  const here = location.hash.split("?")[0];
  const at = all.findIndex((each) => each.hash === here);
  show(all[(at < 0 ? all.findIndex((each) => each.hasAttribute("aria-current")) : at) + by]);
}

function show(tab: HTMLAnchorElement | undefined): void {
  if (tab) go(tab.hash);
}
