// The current route, derived from the address alone.
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

/** Replace the link without a history entry: another display of the same view. */
export function replace(to: string): void {
  history.replaceState(null, "", to);
  route.value = parse(location.hash);
}

/** The time, every second, for ages; paused while the page is hidden. */
export const now = signal(Date.now());
const tick = () => {
  if (!document.hidden) now.value = Date.now();
};
setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick); // no stale ages when the page is visible again
