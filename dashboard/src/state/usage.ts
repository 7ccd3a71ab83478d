// Usage samples: those of the last minutes, which the server keeps in memory, then those that the page collects while it is
// visible.
import { useEffect, useReducer } from "preact/hooks";
import { earlier, usedOf, type Measured, type Sample } from "../logic/usage.ts";
import type { Failure } from "../api/requests.ts";
import { useLoaded } from "./loaded.ts";

const EVERY = 15_000;
const MOST = 960; // four hours

type Samples = Record<string, Sample[]>;
const kept = new Map<string, { last: string; samples: Samples }>();

export interface Usage {
  samples: Samples;
  /** Since when the server keeps samples, which begins anew when it restarts; empty if it keeps none. */
  since: string;
  failure: Failure | null;
}

export function useUsage(path: string): Usage {
  const { value, failure } = useLoaded<Measured>(`${path}?history=true`, EVERY);
  const [, look] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => {
    if (value && remember(path, value)) look();
  }, [path, value]);
  return { samples: kept.get(path)?.samples ?? {}, since: value?.history?.since ?? "", failure };
}

/** True if the sample is new: the server repeats one until it measures again. */
function remember(path: string, measured: Measured): boolean {
  const entry = kept.get(path) ?? { last: "", samples: earlier(measured, Date.parse(measured.timestamp)) };
  if (entry.last === measured.timestamp) return false;
  entry.last = measured.timestamp;
  for (const [resource, value] of Object.entries(usedOf(measured))) {
    const sample = { time: Date.parse(measured.timestamp), value };
    entry.samples[resource] = [...(entry.samples[resource] ?? []), sample].slice(-MOST);
  }
  kept.set(path, entry);
  return true;
}
