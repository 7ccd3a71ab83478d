// The `why` sentence of each object that needs attention. Two are asked for at a time: each costs the server some work, and a
// page may show twenty of them.
import { useEffect, useState } from "preact/hooks";
import { json } from "../api/requests.ts";

const FRESH = 15_000; // milliseconds
const AT_ONCE = 2;
const MOST = 200; // sentences that are kept

export interface Said {
  sentence: string;
  /** The smallest change that would help; may be empty. */
  change: string;
}

const known = new Map<string, { said: Said; time: number }>();
const waiting: (() => Promise<void>)[] = [];
let running = 0;

/** The sentence about the object at a path; null until it is known. With an empty path nothing is asked. */
export function useSentence(path: string): Said | null {
  const [said, setSaid] = useState<Said | null>(known.get(path)?.said ?? null);
  useEffect(() => {
    setSaid(known.get(path)?.said ?? null);
    if (!path) return;
    let over = false;
    const ask = () => {
      if (document.hidden || Date.now() - (known.get(path)?.time ?? 0) < FRESH) return;
      enqueue(async () => {
        if (over) return;
        const found = await json<Said>(`${path}/why`).catch(() => null);
        if (!found) return;
        keep(path, { sentence: found.sentence, change: found.change });
        if (!over) setSaid(found);
      });
    };
    ask();
    const timer = setInterval(ask, FRESH);
    return () => {
      over = true;
      clearInterval(timer);
    };
  }, [path]);
  return said;
}

function keep(path: string, said: Said): void {
  known.delete(path);
  known.set(path, { said, time: Date.now() });
  for (const oldest of known.keys()) {
    if (known.size <= MOST) break;
    known.delete(oldest);
  }
}

function enqueue(work: () => Promise<void>): void {
  waiting.push(work);
  next();
}

function next(): void {
  if (running >= AT_ONCE) return;
  const work = waiting.shift();
  if (!work) return;
  running += 1;
  void work().finally(() => {
    running -= 1;
    next();
  });
}
