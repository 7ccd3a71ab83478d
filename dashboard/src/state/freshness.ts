// Since when something on the page is old, whatever it is: lists tell of it, and answers that could not be asked for again.
import { computed, signal } from "@preact/signals";

interface Age {
  since: number;
  /** Whether the server is away, and did not only fail to answer this. */
  away: boolean;
}

const sources = signal<ReadonlyMap<object, Age>>(new Map());

/** When the oldest of what is shown was known to be so, and whether the server is away; null while all of it is known. */
export const old = computed((): Age | null => {
  const ages = [...sources.value.values()];
  return ages.length ? { since: Math.min(...ages.map((each) => each.since)), away: ages.some((each) => each.away) } : null;
});

/** Changes when the connection is there again, or somebody looks again: single answers are asked for anew. */
export const round = signal(0);

/** Tell of one source; 0: it is as it should be. */
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
