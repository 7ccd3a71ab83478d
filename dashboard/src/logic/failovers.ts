// Instances that run in another city for a lost one: between which cities, and how many of them are ready.
import { fraction } from "./health.ts";

export interface StandIn {
  from: string;
  to: string;
  /** Ready of desired, such as `1/2`. */
  ready: string;
}

export interface Failover {
  from: string;
  to: string;
  ready: number;
  desired: number;
}

/** The stand-ins of all Workloads by pair of cities. */
export function failoversOf(found: readonly StandIn[]): Failover[] {
  const pairs = new Map<string, Failover>();
  for (const { from, to, ready } of found) {
    const [now, wanted] = fraction(ready) ?? [0, 0];
    const key = `${from} ${to}`;
    const pair = pairs.get(key) ?? { from, to, ready: 0, desired: 0 };
    pairs.set(key, { ...pair, ready: pair.ready + now, desired: pair.desired + wanted });
  }
  return [...pairs.values()].sort((a, b) => a.from.localeCompare(b.from) || a.to.localeCompare(b.to));
}

/** Such as `2 instances of NRT run in SIN instead, 1 of them ready.` */
export function failoverText({ from, to, ready, desired }: Failover): string {
  const many = `${desired} ${desired === 1 ? "instance" : "instances"} of ${from} ${desired === 1 ? "runs" : "run"} in ${to} instead`;
  return ready < desired ? `${many}, ${ready} of them ready.` : `${many}.`;
}
