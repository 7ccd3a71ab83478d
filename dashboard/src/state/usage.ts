// Usage samples, collected while the page is visible: the server stores no history, so the page does.
import { useEffect, useReducer } from "preact/hooks";
import { usedOf, type Measured, type Sample } from "../logic/usage.ts";
import type { Failure } from "../api/requests.ts";
import { useLoaded } from "./loaded.ts";

const EVERY = 15_000;
const MOST = 960; // four hours

type Samples = Record<string, Sample[]>;
const kept = new Map<string, { last: string; samples: Samples }>();

export function useUsage(path: string): { samples: Samples; failure: Failure | null } {
  const { value, failure } = useLoaded<Measured>(path, EVERY);
  const [, look] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => {
    if (value && remember(path, value)) look();
  }, [path, value]);
  return { samples: kept.get(path)?.samples ?? {}, failure };
}

/** True if the sample is new: the server repeats one until it measures again. */
function remember(path: string, measured: Measured): boolean {
  const entry = kept.get(path) ?? { last: "", samples: {} };
  if (entry.last === measured.timestamp) return false;
  entry.last = measured.timestamp;
  for (const [resource, value] of Object.entries(usedOf(measured))) {
    const sample = { time: Date.parse(measured.timestamp), value };
    entry.samples[resource] = [...(entry.samples[resource] ?? []), sample].slice(-MOST);
  }
  kept.set(path, entry);
  return true;
}
