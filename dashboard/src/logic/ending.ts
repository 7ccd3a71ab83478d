// Objects deleted with an object: its dependents, transitively; and whether there are many.

export interface Owned {
  kind: string;
  uid: string;
  namespace: string;
  name: string;
  city: string;
  owners: readonly string[];
}

export interface Ends {
  /** Instances, or where there are none, pods, by city; an empty name for those that are in none. */
  cities: [city: string, count: number][];
  /** Everything else, by kind. */
  kinds: [kind: string, count: number][];
  instances: number;
}

export function ending(uids: readonly string[], all: readonly Owned[]): Ends {
  const gone = closure(new Set(uids), all);
  const of = (kind: string) => gone.filter((each) => each.kind === kind);
  const running = of("Instance").length ? of("Instance") : of("Pod");
  return {
    cities: counted(running.map((each) => each.city)),
    kinds: counted(gone.filter((each) => each.kind !== "Instance" && each.kind !== "Pod").map((each) => each.kind)),
    instances: running.length,
  };
}

/** Whether the name has to be typed before it ends. */
export function mustBeTyped(instances: number): boolean {
  return instances > 1;
}

function closure(roots: Set<string>, all: readonly Owned[]): Owned[] {
  const below = new Map<string, Owned[]>();
  for (const each of all) for (const owner of each.owners) below.set(owner, [...(below.get(owner) ?? []), each]);
  const found = new Map(all.filter((each) => roots.has(each.uid)).map((each) => [each.uid, each]));
  const waiting = [...roots];
  for (let uid = waiting.pop(); uid !== undefined; uid = waiting.pop())
    for (const each of below.get(uid) ?? []) {
      if (found.has(each.uid)) continue;
      found.set(each.uid, each);
      waiting.push(each.uid);
    }
  return [...found.values()];
}

function counted(names: readonly string[]): [string, number][] {
  const found = new Map<string, number>();
  for (const each of names) found.set(each, (found.get(each) ?? 0) + 1);
  return [...found].sort(([a], [b]) => a.localeCompare(b));
}
