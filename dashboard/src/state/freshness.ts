// Since when something on the page is old, whatever it is: lists tell of it, and answers that could not be asked for again.
import { computed, signal } from "@preact/signals";

const sources = signal<ReadonlyMap<object, number>>(new Map());

/** When the oldest of what is shown was known to be so; 0 while all of it is. */
export const oldSince = computed(() => earliest([...sources.value.values()]));

/** Changes when the connection is there again, or somebody looks again: single answers are asked for anew. */
export const round = signal(0);

/** Tell of one source; 0: it is as it should be. */
export function tell(source: object, since: number): void {
  if ((sources.value.get(source) ?? 0) === since) return;
  const next = new Map(sources.value);
  if (since) next.set(source, since);
  else next.delete(source);
  sources.value = next;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) round.value += 1;
});

function earliest(times: number[]): number {
  return times.length ? Math.min(...times) : 0;
}
