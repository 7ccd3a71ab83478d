// Lists that views share: opened by the first view, closed a little after the last one has left.
import { effect } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { LiveList } from "../api/listwatch.ts";
import { within } from "../logic/spaces.ts";
import { round, tell } from "./freshness.ts";
import { namespace, namespaces } from "./namespace.ts";

const LINGER = 5000;

interface Entry {
  list: LiveList;
  users: number;
  closing: number;
  close: () => void;
}

const shared = new Map<string, Entry>();

/** A list over all namespaces is one of the chosen namespace, where there is one. Null until it is known whether there is. */
export function useList(path: string, query: Record<string, string> = {}): LiveList | null {
  const place = within(path, namespace.value);
  const known = namespaces.value !== undefined;
  const key = `${place}?${new URLSearchParams(query)}`;
  const [list, setList] = useState<LiveList | null>(null);
  useEffect(() => {
    if (!known) return;
    const entry = shared.get(key) ?? opened(new LiveList(place, query, path));
    shared.set(key, entry);
    clearTimeout(entry.closing);
    entry.users += 1;
    setList(entry.list);
    return () => {
      entry.users -= 1;
      if (entry.users) return;
      entry.closing = window.setTimeout(() => {
        shared.delete(key);
        entry.close();
      }, LINGER);
    };
  }, [key, known]);
  return list;
}

/** The open lists of a path, with any selector. */
export function openLists(path: string): LiveList[] {
  return [...shared].filter(([key]) => key.startsWith(`${path}?`)).map(([, entry]) => entry.list);
}

/** Forget everything: the user changed. */
export function closeLists(): void {
  for (const entry of shared.values()) entry.close();
  shared.clear();
}

function opened(list: LiveList): Entry {
  let before = 0;
  const dispose = effect(() => {
    const since = list.staleSince.value;
    tell(list, since);
    if (before && !since) round.value = round.peek() + 1;
    before = since;
  });
  const close = () => {
    dispose();
    tell(list, 0);
    list.stop();
  };
  return { list, users: 0, closing: 0, close };
}
