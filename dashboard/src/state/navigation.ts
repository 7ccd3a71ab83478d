// Where the page is, from the address and nothing else.
import { signal } from "@preact/signals";
import { parse, type Route } from "../logic/routes.ts";

export const route = signal<Route>(parse(location.hash));
addEventListener("hashchange", () => (route.value = parse(location.hash)));

/**
 * Go to a link at once. A click on a link changes the route only with the next `hashchange` event, so that a second key
 * pressed before it would act on the view that is about to go.
 */
export function go(to: string): void {
  location.hash = to;
  route.value = parse(location.hash);
}

/** Another way to look at the same: the link says so, but it is no step that one would want to go back over. */
export function replace(to: string): void {
  history.replaceState(null, "", to);
  route.value = parse(location.hash);
}

/** Every second, for ages; stands still while nobody looks. */
export const now = signal(Date.now());
const tick = () => {
  if (!document.hidden) now.value = Date.now();
};
setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick); // who looks again sees no age of before
