// One response of the server, loaded when a view opens and reloaded on request.
import { useEffect, useRef, useState } from "preact/hooks";
import type { LiveList } from "../api/listwatch.ts";
import { failureIn, json, type Asked, type Failure } from "../api/requests.ts";
import { round, tell } from "./freshness.ts";

const OFTEN = 1000;

export interface Loaded<T> {
  value: T | null;
  failure: Failure | null;
  again: () => void;
}

/** With an empty path nothing is loaded. `read` turns the answer into a value. */
export function useLoaded<T>(path: string, every = 0, accept = "application/json", read: (path: string, asked: Asked) => Promise<T> = json): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; failure: Failure | null }>({ value: null, failure: null });
  const [asked, ask] = useState(0);
  const source = useRef({ known: 0 }).current;
  const refused = useRef(false);
  refused.current = state.failure?.code === 403;
  useEffect(() => setState({ value: null, failure: null }), [path]);
  useEffect(() => {
    if (!path) return;
    const abort = new AbortController();
    read(path, { signal: abort.signal, accept })
      .then((value) => {
        source.known = Date.now();
        tell(source, 0);
        setState({ value, failure: null });
      })
      .catch((error: unknown) => {
        if (abort.signal.aborted) return;
        const failure = failureIn(error);
        // The shown response stays, marked as stale. 502 is the answer of `tarmac dashboard` while the server is away.
        if (failure.code === 0 || failure.code >= 500) tell(source, source.known, failure.code === 0 || failure.code === 502);
        setState((old) => ({ value: old.value, failure }));
      });
    // A missing permission is not retried.
    const timer = every ? window.setInterval(() => !document.hidden && !refused.current && ask((n) => n + 1), every) : 0;
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [path, asked, every, round.value]);
  useEffect(() => () => {
    source.known = 0;
    tell(source, 0);
  }, [path]);
  return { ...state, again: () => ask((n) => n + 1) };
}

/** The same, reloaded when a live list of it has changed, at most once a second. */
export function useFollowed<T>(path: string, list: LiveList | null): Loaded<T> {
  const loaded = useLoaded<T>(path);
  const last = useRef(0);
  const rows = list?.rows.value;
  useEffect(() => {
    const timer = setTimeout(() => {
      last.current = Date.now();
      loaded.again();
    }, Math.max(0, last.current + OFTEN - Date.now()));
    return () => clearTimeout(timer);
  }, [rows]);
  return loaded;
}
