// The visible rows of a list in their order: rows that match the filter, sorted by name or by a column.
import { useMemo, useRef } from "preact/hooks";
import type { Column, Row } from "../api/listwatch.ts";
import { byName, changed, updated, type Compare } from "../logic/ordered.ts";

/** A column with its place among the cells of a row. */
export type Placed = Column & { index: number };

export interface Sort {
  column: Placed | null;
  way: 1 | -1;
}

const COLLATOR = new Intl.Collator(undefined, { numeric: true });

/** With unchanged filter and order, only added and removed rows are processed. */
export function useChosen(rows: readonly Row[], filter: string, sort: Sort): readonly Row[] {
  const wanted = filter.toLowerCase();
  const compare = useMemo(() => comparing(sort), [sort]);
  const last = useRef<{ rows: readonly Row[]; shown: readonly Row[]; wanted: string; compare: Compare<Row> } | null>(null);
  return useMemo(() => {
    const { current: before } = last;
    const matches = (row: Row) => !wanted || text(row).includes(wanted);
    const same = before?.wanted === wanted && before.compare === compare;
    const { gone, come } = same ? changed(before.rows, rows, byName) : { gone: new Set<Row>(), come: rows };
    const shown = !wanted && compare === byName ? rows : updated(same ? before.shown : [], gone, come.filter(matches), compare);
    last.current = { rows, shown, wanted, compare };
    return shown;
  }, [rows, wanted, compare]);
}

/** True for a column of ages: its cells are as old as the response, so the page computes its own. */
export function isAge(column: Column): boolean {
  return column.format === "date" || column.name === "Age";
}

function comparing({ column, way }: Sort): Compare<Row> {
  if (!column) return byName;
  const older = (a: Row, b: Row) => (a.created < b.created ? 1 : a.created > b.created ? -1 : 0);
  const cells = (a: Row, b: Row) => COLLATOR.compare(String(a.cells[column.index] ?? ""), String(b.cells[column.index] ?? ""));
  const first = column.index < 0 ? byName : isAge(column) ? older : cells;
  return (a, b) => way * first(a, b) || byName(a, b);
}

function text(row: Row): string {
  return `${row.namespace} ${row.name} ${row.cells.join(" ")}`.toLowerCase();
}
