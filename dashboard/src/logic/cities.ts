// Cities of the planet view, from their wanted instances and the heartbeats of their Locations.
import { fraction, health, worst, WORDS, type State } from "./health.ts";

export interface City {
  code: string;
  at: [longitude: number, latitude: number] | null;
  ready: number;
  desired: number;
  deployments: number;
  /** Null if the user may not read Locations. */
  nodes: number | null;
  state: State;
  /** The state in a word or two. */
  word: string;
  reason: string;
}

export interface DeploymentCells {
  city: string;
  ready: string;
  reason: string;
}

export interface PlaceCells {
  city: string;
  nodes: number;
  /** The condition Ready: True, False, or Unknown when nothing is heard from there. */
  ready: string;
  reason: string;
}

export function citiesOf(
  deployments: readonly DeploymentCells[], places: readonly PlaceCells[],
  known: ReadonlyMap<string, [number, number] | null>, placeOf: (code: string) => [number, number] | null,
): City[] {
  const codes = new Set([...known.keys(), ...places.map((each) => each.city), ...deployments.map((each) => each.city)]);
  return [...codes].filter(Boolean).sort((a, b) => a.localeCompare(b)).map((code) => ({
    ...cityOf(deployments.filter((each) => each.city === code), places.filter((each) => each.city === code)),
    code, at: known.get(code) ?? placeOf(code),
  }));
}

/** A sentence about lost cities; empty if there are none. */
export function lossOf(cities: readonly City[]): string {
  const lost = cities.filter((each) => each.word === LOST).map((each) => each.code);
  if (lost.length === 0) return "";
  return `${lost.join(", ")} ${lost.length === 1 ? "is" : "are"} lost: nothing is heard from any node there. Its pods may still run.`;
}

const LOST = "Lost";

/** A city in which something is ready is degraded at the worst, also if one of its deployments has nothing ready. */
function overall(states: State[], ready: number): State {
  const found = worst(states);
  return found === "no" && ready > 0 ? "wait" : found;
}

function cityOf(deployments: readonly DeploymentCells[], places: readonly PlaceCells[]): Omit<City, "code" | "at"> {
  const parts = deployments.map(({ ready, reason }) => ({ reason, parts: fraction(ready) ?? [0, 0] as [number, number] }));
  const states = parts.map((each) => health(...each.parts));
  const sum = (of: 0 | 1) => parts.reduce((all, each) => all + each.parts[of], 0);
  const [lost, down] = [places.length > 0 && places.every((each) => each.ready === "Unknown"), places.length > 0 && places.every((each) => each.ready !== "True")];
  const state = down ? "no" : states.length ? overall(states, sum(0)) : "yes";
  const unwell = parts.findLast((each, index) => states[index] !== "yes" && each.reason);
  return {
    ready: sum(0), desired: sum(1), deployments: parts.length, nodes: places.length ? places.reduce((all, each) => all + each.nodes, 0) : null, state,
    word: lost ? LOST : down ? "No node is ready" : state === "wait" ? "Degraded" : WORDS[state],
    reason: down ? (places.find((each) => each.ready !== "True")?.reason ?? "") : (unwell?.reason ?? ""),
  };
}
