// Where the page is, from the address and nothing else.
import { signal } from "@preact/signals";
import { parse, type Route } from "../logic/routes.ts";

export const route = signal<Route>(parse(location.hash));
addEventListener("hashchange", () => (route.value = parse(location.hash)));

/** Every second, for ages; stands still while nobody looks. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
