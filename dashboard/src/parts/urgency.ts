// The severities of a list's rows, worked out once for each row.
import { useMemo } from "preact/hooks";
import type { Column, Row } from "../api/listwatch.ts";
import { byName, type Compare } from "../logic/ordered.ts";
import { byUrgency, severityOf, type Severity } from "../logic/severity.ts";

export interface Urgency {
  of: (row: Row) => Severity;
  /** The most urgent first, then by name. */
  order: Compare<Row>;
  counts: readonly (readonly [Severity, number])[];
}

const SEVERITIES: readonly Severity[] = ["bad", "warn", "busy", "unknown", "ok"];
export const NAMES: Record<Severity, string> = { bad: "Failing", warn: "Degraded", busy: "In progress", unknown: "Unknown", ok: "Healthy" };

export function useUrgency(rows: readonly Row[], columns: readonly Column[] | undefined): Urgency {
  const { of, order } = useMemo(() => {
    const known = new WeakMap<Row, Severity>();
    const of = (row: Row): Severity => {
      const found = known.get(row) ?? severityOf(row, columns ?? []);
      known.set(row, found);
      return found;
    };
    return { of, order: (a: Row, b: Row) => byUrgency(of(a), of(b)) || byName(a, b) };
  }, [columns]);
  const counts = useMemo(() => {
    const found = new Map<Severity, number>();
    for (const row of rows) found.set(of(row), (found.get(of(row)) ?? 0) + 1);
    return SEVERITIES.filter((each) => found.has(each)).map((each) => [each, found.get(each) ?? 0] as const);
  }, [rows, of]);
  return { of, order, counts };
}
