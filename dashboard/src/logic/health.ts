// Ready of desired, as a mark, a word and a colour.

export type State = "yes" | "wait" | "no" | "unknown";

export const MARKS: Record<State, string> = { yes: "●", wait: "◐", no: "✕", unknown: "○" };
export const WORDS: Record<State, string> = { yes: "Ready", wait: "Waiting", no: "Not ready", unknown: "Unknown" };

/** How well something stands with so many ready of so many wanted. */
export function health(ready: number | undefined, desired: number | undefined): State {
  if (ready === undefined || desired === undefined) return "unknown";
  if (ready >= desired) return "yes";
  return ready > 0 ? "wait" : "no";
}

/** The worst of several. */
export function worst(states: State[]): State {
  for (const each of ["no", "wait", "unknown", "yes"] as const) if (states.includes(each)) return each;
  return "unknown";
}

/** Numbers in a cell such as `2/3`. */
export function fraction(text: string): [number, number] | null {
  const found = /^(\d+)\/(\d+)$/.exec(text);
  return found ? [Number(found[1]), Number(found[2])] : null;
}
