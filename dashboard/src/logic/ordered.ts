// Keeps rows in order. A change costs comparisons for the changed rows only; of the rest, perhaps ten thousand, only
// references are copied.

export type Compare<T> = (a: T, b: T) => number;

interface Named {
  namespace: string;
  name: string;
}

/** The order in which the server lists. */
export function byName(a: Named, b: Named): number {
  if (a.namespace !== b.namespace) return a.namespace < b.namespace ? -1 : 1;
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** Rows by key; sorted on the first read. */
export class Ordered<T> {
  private known = new Map<string, T>();
  private rows: readonly T[] = [];
  /** Outdated rows of `rows`, and new rows by key. */
  private gone = new Set<T>();
  private come = new Map<string, T>();

  private readonly compare: Compare<T>;

  constructor(compare: Compare<T>) {
    this.compare = compare;
  }

  set(key: string, row: T): void {
    this.delete(key);
    this.known.set(key, row);
    this.come.set(key, row);
  }

  delete(key: string): void {
    const old = this.known.get(key);
    if (old === undefined) return;
    this.known.delete(key);
    if (!this.come.delete(key)) this.gone.add(old);
  }

  replace(rows: ReadonlyMap<string, T>): void {
    this.known = new Map(rows);
    this.come = new Map(rows);
    this.gone.clear();
    this.rows = [];
  }

  inOrder(): readonly T[] {
    this.rows = updated(this.rows, this.gone, this.come.values(), this.compare);
    this.gone.clear();
    this.come.clear();
    return this.rows;
  }
}

/** Rows in order, without those that have gone and with those that have come. */
export function updated<T>(rows: readonly T[], gone: ReadonlySet<T>, come: Iterable<T>, compare: Compare<T>): T[] {
  const next: T[] = [];
  let from = 0;
  const copy = (to: number) => {
    for (const each of rows.slice(from, to)) if (!gone.has(each)) next.push(each);
    from = to;
  };
  for (const each of [...come].sort(compare)) {
    copy(placeOf(rows, each, from, compare));
    next.push(each);
  }
  copy(rows.length);
  return next;
}

/** Removed and added rows between two lists in the same order, compared by identity. */
export function changed<T>(before: readonly T[], after: readonly T[], compare: Compare<T>): { gone: Set<T>; come: T[] } {
  const gone = new Set<T>();
  const come: T[] = [];
  let [a, b] = [0, 0];
  while (a < before.length || b < after.length) {
    const [old, now] = [before[a], after[b]];
    if (old === now) {
      a += 1;
      b += 1;
    } else if (now === undefined || (old !== undefined && compare(old, now) <= 0)) {
      gone.add(old as T);
      a += 1;
    } else {
      come.push(now);
      b += 1;
    }
  }
  return { gone, come };
}

/** Where a row belongs, behind its equals. */
function placeOf<T>(rows: readonly T[], row: T, from: number, compare: Compare<T>): number {
  let [low, high] = [from, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(rows[middle] as T, row) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
