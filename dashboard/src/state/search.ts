// Names of objects for the palette: of every kind that the user may list, page by page, with results as they arrive.
//
// The lists are read once per opened palette, the kinds with views of their own first. A list that is open in a view is
// not read again. A kind that the user may not list is left out.
import { useEffect, useRef, useState } from "preact/hooks";
import { baseOf, kinds, type Kind } from "../api/discovery.ts";
import { json } from "../api/requests.ts";
import { link } from "../logic/routes.ts";
import { within } from "../logic/spaces.ts";
import type { Choice } from "../logic/palette.ts";
import { COMPUTE, NETWORKING, SUBMARINER } from "../views/paths.ts";
import { openLists } from "./lists.ts";
import { namespace } from "./namespace.ts";

const DEBOUNCE = 150;
const PAGE = 500;
const MAX_PAGES = 20; // of a kind with a view; of other kinds one page is searched
const PARALLEL = 3; // a browser has six connections to a host, and the view needs some
const NOISE = new Set(["events", "leases"]); // named by machines, and changing every second

/** Kinds with a view of their own: their list, their view, and their name. */
export const VIEWED: readonly (readonly [path: string, view: string, what: string])[] = [
  [`${COMPUTE}/workloads`, "workloads", "Workload"], [`${COMPUTE}/instances`, "instances", "Instance"], ["/api/v1/nodes", "nodes", "Node"],
  [`${NETWORKING}/networks`, "networks", "Network"], [`${SUBMARINER}/externalservices`, "external", "ExternalService"],
];

interface Page {
  items: { metadata: { name: string; namespace?: string } }[];
  metadata?: { continue?: string };
}

interface Listing {
  path: string;
  what: string;
  pages: number;
  href: (namespace: string, name: string) => string;
}

export interface Search {
  found: Choice[];
  searching: boolean;
}

/** Objects and kinds; reads nothing before the user has typed. */
export function useSearch(typed: string): Search {
  const [found, setFound] = useState<Choice[]>([]);
  const [searching, setSearching] = useState(false);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => {
    if (!typed || abort.current) return;
    setSearching(true); // at once: an empty result during the pause would read as the answer
    const timer = setTimeout(() => {
      const { signal } = (abort.current = new AbortController());
      const add = (more: Choice[]) => !signal.aborted && setFound((old) => [...old, ...more]);
      void readAll(add, signal).finally(() => !signal.aborted && setSearching(false));
    }, DEBOUNCE);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => () => abort.current?.abort(), []);
  return { found, searching };
}

/** Objects of the lists that views have open. */
export function loadedObjects(): Choice[] {
  return VIEWED.flatMap(([path, view, what]) => openLists(placeOf(path)).flatMap((list) => list.rows.peek().map((row) => choice(what, hrefOf(view), row.namespace, row.name))));
}

async function readAll(add: (more: Choice[]) => void, signal: AbortSignal): Promise<void> {
  const waiting = VIEWED.filter(([path]) => !isWhole(path)).map(([path, view, what]): Listing => ({ path: placeOf(path), what, pages: MAX_PAGES, href: hrefOf(view) }));
  const all = await kinds().catch((): Kind[] => []);
  const listed = all.filter((each) => each.verbs.includes("list"));
  add(listed.map((each) => ({ label: each.kind, what: each.group || "core", href: link("any", partsOf(each)) })));
  const viewed = new Set(VIEWED.map(([path]) => path));
  waiting.push(...listed.filter((each) => !viewed.has(pathOf(each)) && !NOISE.has(each.plural)).map((each): Listing => ({
    path: each.namespaced ? placeOf(pathOf(each)) : pathOf(each), what: each.kind, pages: 1, href: (space, name) => link("any", [...partsOf(each), space || "-", name]),
  })));
  const work = async () => {
    for (let next = waiting.shift(); next && !signal.aborted; next = waiting.shift()) await read(next, add, signal).catch(() => undefined);
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
}

async function read({ path, what, pages, href }: Listing, add: (more: Choice[]) => void, signal: AbortSignal): Promise<void> {
  const accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
  let token = "";
  for (let page = 0; page < pages; page += 1) {
    const query = new URLSearchParams({ limit: String(PAGE), ...(token ? { continue: token } : {}) });
    const { items, metadata } = await json<Page>(`${path}?${query}`, { accept, signal });
    add(items.map((each) => choice(what, href, each.metadata.namespace ?? "", each.metadata.name)));
    token = metadata?.continue ?? "";
    if (!token) return;
  }
}

/** The list of the chosen namespace; nodes are in none. */
function placeOf(path: string): string {
  return path.endsWith("/nodes") ? path : within(path, namespace.peek());
}

/** True if a view has the whole list open, so that its rows are offered already. */
function isWhole(path: string): boolean {
  return openLists(placeOf(path)).some((list) => list.loaded.peek() && list.isWhole);
}

function hrefOf(view: string): Listing["href"] {
  return (space, name) => link(view, space ? [space, name] : [name]);
}

function pathOf(kind: Kind): string {
  return `${baseOf(kind)}/${kind.plural}`;
}

function partsOf({ group, version, plural }: Kind): string[] {
  return [group || "core", version, plural];
}

function choice(what: string, href: Listing["href"], space: string, name: string): Choice {
  return { label: space ? `${space}/${name}` : name, what, href: href(space, name) };
}
