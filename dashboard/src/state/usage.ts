// What something uses, as often as it is measured and while somebody looks: the server keeps no past, so the page does.
import { useEffect, useReducer } from "preact/hooks";
import { amount, type Sample } from "../logic/ledger.ts";
import type { Failure } from "../api/requests.ts";
import { useLoaded } from "./loaded.ts";

const EVERY = 15_000;
const MOST = 960; // four hours

interface Measured {
  timestamp: string;
  usage: Record<string, string>;
}

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

/** Whether it was news: between two measurements the same one comes again. */
function remember(path: string, { timestamp, usage }: Measured): boolean {
  const entry = kept.get(path) ?? { last: "", samples: {} };
  if (entry.last === timestamp) return false;
  entry.last = timestamp;
  for (const [resource, used] of Object.entries(usage)) {
    const sample = { time: Date.parse(timestamp), value: amount(used) };
    entry.samples[resource] = [...(entry.samples[resource] ?? []), sample].slice(-MOST);
  }
  kept.set(path, entry);
  return true;
}
