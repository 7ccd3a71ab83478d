// Asks the server for a sign of life, so that one that hangs is noticed: its watches stay open and silent.
import { effect } from "@preact/signals";
import { session } from "../api/session.ts";
import { tell } from "./freshness.ts";

const INTERVAL = 2500;
const TIMEOUT = 2000;

const source = {};

/** Begin; ages are told to `freshness` while there is a session and the page is visible. */
export function beat(): void {
  let last = Date.now();
  let asking = false;
  const ask = async () => {
    if (asking || document.hidden || !session.peek()) return;
    asking = true;
    const alive = await answers();
    asking = false;
    if (alive) last = Date.now();
    tell(source, alive ? 0 : last);
  };
  setInterval(() => void ask(), INTERVAL);
  effect(() => {
    if (!session.value) tell(source, 0);
  });
}

/** Any answer of the server counts, also a refusal. 502 is the answer of `tarmac dashboard` while the server is away. */
async function answers(): Promise<boolean> {
  try {
    const headers = { authorization: `Bearer ${session.peek()?.token ?? ""}` }; // the relay passes nothing on without it
    const answer = await fetch("/livez", { headers, signal: AbortSignal.timeout(TIMEOUT), cache: "no-store" });
    return answer.status !== 502;
  } catch {
    return false;
  }
}
