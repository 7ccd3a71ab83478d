// The time that a wave of a rollout has to stay ready before the next one begins.
import type { Condition } from "../views/workload.ts";

interface Reached {
  /** True if all its instances are of the newest revision and ready. */
  complete: boolean;
  conditions: readonly Condition[];
}

export interface Observing {
  /** Seconds for which every city of the wave has been ready. */
  elapsed: number;
  wanted: number;
}

/** How long the cities of a wave have been ready together; null while one of them is not complete. */
export function observing(cities: readonly Reached[], wanted: number, now: number): Observing | null {
  if (cities.length === 0 || !cities.every((each) => each.complete)) return null;
  const since = cities.map(({ conditions }) => {
    const ready = conditions.find((each) => each.type === "Ready" && each.status === "True");
    return ready?.lastTransitionTime ? Date.parse(ready.lastTransitionTime) : now;
  });
  return { elapsed: Math.min(wanted, Math.max(0, Math.floor((now - Math.max(...since)) / 1000))), wanted };
}
