// Answers for single rows of a list, such as the `why` sentence of each object that needs attention. Two are asked for at a
// time: each costs the server some work, and a page may show twenty of them.
import { useEffect, useState } from "preact/hooks";
import { Failure, json } from "../api/requests.ts";

const FRESH = 15_000; // milliseconds
const AT_ONCE = 2;
const MOST = 400; // answers that are kept

export interface Said {
  sentence: string;
  /** The smallest change that would help; may be empty. */
  change: string;
}

const known = new Map<string, { answer: unknown; time: number }>();
const waiting: (() => Promise<void>)[] = [];
let running = 0;

/** The sentence about the object at a path; null until it is known. With an empty path nothing is asked. */
export function useSentence(path: string): Said | null {
  return useAnswer<Said>(path && `${path}/why`);
}

/** The server's answer for a row, asked again while it is shown; null until it is known, or if it may not be read. */
export function useAnswer<T>(path: string): T | null {
  const [answer, setAnswer] = useState<T | null>(null);
  useEffect(() => {
    let over = false;
    const show = () => over || setAnswer((known.get(path)?.answer as T | undefined) ?? null);
    show();
    if (!path) return;
    const ask = () => void (document.hidden || isFresh(path) || enqueue(async () => {
      if (over) return;
      if (!isFresh(path)) await read(path); // cells of one row share an answer
      show();
    }));
    ask();
    const timer = setInterval(ask, FRESH);
    return () => {
      over = true;
      clearInterval(timer);
    };
  }, [path]);
  return answer ?? (known.get(path)?.answer as T | undefined) ?? null;
}

function isFresh(path: string): boolean {
  return Date.now() - (known.get(path)?.time ?? 0) < FRESH;
}

const reading = new Map<string, Promise<void>>();

/** Read once, however many cells ask for it. A refused answer is not asked for again. */
function read(path: string): Promise<void> {
  const begun = reading.get(path) ?? json(path).then(
    (found) => keep(path, found),
    (error: unknown) => void (error instanceof Failure && error.code === 403 && keep(path, null, Infinity)),
  ).finally(() => reading.delete(path));
  reading.set(path, begun);
  return begun;
}

function keep(path: string, answer: unknown, time = Date.now()): void {
  known.delete(path);
  known.set(path, { answer, time });
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
