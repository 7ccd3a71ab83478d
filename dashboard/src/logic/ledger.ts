// A node's ledger as a bar: capacity, reserved, oversubscribed, committed and used. The numbers are the server's; this only
// places them on an axis.

export interface Account {
  resource: string;
  capacity?: string;
  reserved: { for: string; amount: string; source: string }[];
  oversubscription?: string;
  allocatable?: string;
  exclusive?: { capacity: string; committed?: string };
  committed?: string;
  used?: string;
}

export interface Segment {
  name: "reserved" | "oversubscribed" | "committed" | "exclusive" | "used";
  from: number;
  to: number;
}

export interface Bar {
  /** The amount of the whole width. */
  scale: number;
  capacity: number;
  allocatable: number;
  segments: Segment[];
}

const UNITS: Record<string, number> = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** A Kubernetes quantity as a number; NaN if it is none. */
export function amount(text: string | undefined): number {
  const found = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?$/.exec(text ?? "");
  return found ? Number(found[1]) * (UNITS[found[2] ?? ""] ?? NaN) : NaN;
}

/** Null where there is no amount to show, as of process ids. */
export function barOf(account: Account): Bar | null {
  const capacity = amount(account.capacity);
  const allocatable = amount(account.allocatable);
  if (Number.isNaN(capacity) || Number.isNaN(allocatable)) return null;
  const [committed, used, lent] = [account.committed, account.used, account.oversubscription].map((each) => amount(each) || 0) as [number, number, number];
  const reserved = account.reserved.reduce((sum, each) => sum + (amount(each.amount) || 0), 0);
  const own = amount(account.exclusive?.committed) || 0;
  const begins = capacity - reserved; // the reserved part begins here, the oversubscribed amount first
  const segments: Segment[] = [
    { name: "reserved", from: begins, to: capacity },
    { name: "oversubscribed", from: begins, to: begins + lent },
    { name: "committed", from: 0, to: committed },
    { name: "exclusive", from: 0, to: own },
    { name: "used", from: 0, to: used },
  ];
  const shown = segments.filter((each) => each.to > each.from);
  return { scale: Math.max(capacity, allocatable, ...shown.map((each) => each.to)) || 1, capacity, allocatable, segments: shown };
}

/** The same in a sentence, in the order in which one becomes the other. */
export function sentence(account: Account): string {
  const held = account.reserved.map((each) => `${each.amount} for ${each.for}`).join(", ");
  const parts = [
    `${account.capacity ?? "?"} in all`, held ? `reserved: ${held}` : "nothing reserved", account.oversubscription && `${account.oversubscription} of it oversubscribed`,
    `${account.allocatable ?? "?"} for pods`, account.exclusive && `exclusive: ${account.exclusive.committed ?? "?"} of ${account.exclusive.capacity}`,
    account.committed && `committed: ${account.committed}`, account.used && `used: ${account.used}`,
  ];
  return `${account.resource}: ${parts.filter(Boolean).join("; ")}.`;
}
