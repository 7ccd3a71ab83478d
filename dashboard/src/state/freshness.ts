// The time since which any part of the page is stale: reported by lists and by responses that could not be reloaded.
import { computed, signal } from "@preact/signals";

interface Age {
  since: number;
  /** True if the server is unreachable, not just failing this request. */
  away: boolean;
}

const sources = signal<ReadonlyMap<object, Age>>(new Map());

/** The time of the oldest stale part, and whether the server is unreachable; null while nothing is stale. */
export const old = computed((): Age | null => {
  const ages = [...sources.value.values()];
  return ages.length ? { since: Math.min(...ages.map((each) => each.since)), away: ages.some((each) => each.away) } : null;
});

/** Changes when the connection is back or the page is visible again: single responses are reloaded. */
export const round = signal(0);

/** Report one source; 0: it is current. */
export function tell(source: object, since: number, away = true): void {
  const known = sources.value.get(source);
  if ((known?.since ?? 0) === since && (!known || known.away === away)) return;
  const next = new Map(sources.value);
  if (since) next.set(source, { since, away });
  else next.delete(source);
  sources.value = next;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) round.value += 1;
});
