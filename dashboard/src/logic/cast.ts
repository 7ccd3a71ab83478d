// Recordings: asciicast 2, a header and then one event a line. Their content is untrusted and validated.

export interface Event {
  time: number;
  code: "o" | "r" | "m";
  text: string;
}

export interface Cast {
  width: number;
  height: number;
  title: string;
  user: string;
  kind: string;
  events: Event[];
  /** Seconds. */
  duration: number;
  /** Lines that are no events. */
  bad: number;
}

const MOST_COLUMNS = 500;
const MOST_ROWS = 200;

/** A recording, as far as it can be read: the last line of one that goes on may be cut. Null when it is none. */
export function castOf(text: string): Cast | null {
  const [first = "", ...lines] = text.split("\n");
  const header = parsed(first) as { version?: number; width?: number; height?: number; title?: unknown; tarmac?: { user?: unknown; kind?: unknown } } | null;
  if (header?.version !== 2) return null;
  const events: Event[] = [];
  let bad = 0;
  for (const line of lines) {
    if (!line) continue;
    const event = eventOf(parsed(line));
    if (event) events.push(event);
    else bad += 1;
  }
  const [width, height] = bounded(header.width, header.height) ?? [80, 24];
  return {
    width, height, title: String(header.title ?? ""), user: String(header.tarmac?.user ?? ""), kind: String(header.tarmac?.kind ?? ""),
    events, duration: events.at(-1)?.time ?? 0, bad,
  };
}

/** How many events lie before or at a moment. */
export function countAt(events: Event[], time: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((events[middle]?.time ?? Infinity) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Columns and rows of an event such as `120x40`. */
export function sizeOf(text: string): [number, number] | null {
  const found = /^(\d{1,5})x(\d{1,5})$/.exec(text);
  return found ? bounded(Number(found[1]), Number(found[2])) : null;
}

/** Minutes and seconds. */
export function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function eventOf(line: unknown): Event | null {
  if (!Array.isArray(line)) return null;
  const [time, code, text] = line as unknown[];
  if (typeof time !== "number" || !(time >= 0) || typeof text !== "string") return null;
  return code === "o" || code === "r" || code === "m" ? { time, code, text } : null;
}

function bounded(width: unknown, height: unknown): [number, number] | null {
  if (typeof width !== "number" || typeof height !== "number" || !(width >= 1) || !(height >= 1)) return null;
  return [Math.min(Math.floor(width), MOST_COLUMNS), Math.min(Math.floor(height), MOST_ROWS)];
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}
