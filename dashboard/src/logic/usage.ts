// Usage samples as points of a line and as readable numbers.
import { amount } from "./ledger.ts";

/** A measurement of metrics.k8s.io: of a node, or of a Pod by its containers. */
export interface Measured {
  timestamp: string;
  usage?: Record<string, string>;
  containers?: { usage: Record<string, string> }[];
  /** Samples that the server keeps in memory, oldest first; from a server that keeps some. */
  history?: { since?: string; samples: { timestamp: string; usage: Record<string, string> }[] };
}

export interface Sample {
  time: number;
  value: number;
}

/** The samples of the server's history that are older than those that the page has collected itself. */
export function earlier({ history }: Measured, first: number): Record<string, Sample[]> {
  const found: Record<string, Sample[]> = {};
  for (const { timestamp, usage } of history?.samples ?? []) {
    const time = Date.parse(timestamp);
    if (time >= first) continue;
    for (const [resource, value] of Object.entries(usedOf({ timestamp, usage }))) (found[resource] ??= []).push({ time, value });
  }
  return found;
}

/** Usage by resource; the sum over several containers. */
export function usedOf({ usage, containers = [] }: Measured): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const each of usage ? [usage] : containers.map((container) => container.usage)) {
    for (const [resource, used] of Object.entries(each)) sums[resource] = (sums[resource] ?? 0) + amount(used);
  }
  return sums;
}

export interface Bound {
  name: "request" | "limit";
  value: number;
}

/** The amounts that usage is compared with; one line where both are the same. */
export function boundsIn({ request, limit }: { request?: string; limit?: string }): Bound[] {
  const found: Bound[] = [{ name: "request", value: amount(request) }, { name: "limit", value: amount(limit) }];
  return found.filter((each, index) => each.value > 0 && !(index === 0 && each.value === found[1]?.value));
}

/** Points of a line in a box, oldest at the left; one sample is a line too. `most` is at its top. */
export function pointsOf(samples: readonly Sample[], most: number, width: number, height: number): string {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return "";
  const span = last.time - first.time || 1;
  const all = samples.length === 1 ? [first, { ...first, time: first.time + 1 }] : samples;
  return all.map(({ time, value }) => `${round(((time - first.time) / span) * width)},${round(height - (value / (most || 1)) * height)}`).join(" ");
}

/** An amount as people read it: processors with thousandths, memory in the unit that fits. */
export function readable(resource: string, value: number): string {
  if (resource === "cpu") return value < 10 ? `${Math.round(value * 1000)}m` : value.toFixed(1);
  if (resource !== "memory" && resource !== "ephemeral-storage") return String(round(value));
  const power = value > 0 ? Math.min(4, Math.floor(Math.log2(value) / 10)) : 0;
  return `${round(value / 2 ** (10 * power))}${["", "Ki", "Mi", "Gi", "Ti"][power] ?? ""}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
