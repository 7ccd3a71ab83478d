// The objects that the user looked at last, for the palette. They are kept in memory only, since their names may be secret.
import { effect } from "@preact/signals";
import type { Choice } from "../logic/palette.ts";
import { link } from "../logic/routes.ts";
import { route } from "./navigation.ts";
import { VIEWED } from "./search.ts";

const MOST = 8;
const CLUSTERED = "nodes"; // the view of objects without a namespace

let seen: Choice[] = [];

effect(() => {
  const { view, parts } = route.value;
  const what = VIEWED.find(([, each]) => each === view)?.[2];
  const name = parts.slice(0, view === CLUSTERED ? 1 : 2);
  if (!what || name.length < (view === CLUSTERED ? 1 : 2)) return;
  const choice = { label: name.join("/"), what, href: link(view, name) };
  seen = [choice, ...seen.filter((each) => each.href !== choice.href)].slice(0, MOST);
});

/** The newest first; the one that is open now is left out. */
export function recent(): Choice[] {
  return seen.filter((each) => !location.hash.startsWith(each.href ?? ""));
}
