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

interface Choice {
  filter: string;
  sort: Sort;
  /** The order without a chosen column. */
  usual: Compare<Row>;
  /** Only rows of this; null: all. */
  only: ((row: Row) => boolean) | null;
}

/** With unchanged filter and order, only added and removed rows are processed. `usual` and `only` are kept between calls. */
export function useChosen(rows: readonly Row[], { filter, sort, usual, only }: Choice): readonly Row[] {
  const wanted = filter.toLowerCase();
  const compare = useMemo(() => comparing(sort, usual), [sort, usual]);
  const last = useRef<{ rows: readonly Row[]; shown: readonly Row[]; wanted: string; compare: Compare<Row>; only: Choice["only"] } | null>(null);
  return useMemo(() => {
    const { current: before } = last;
    const matches = (row: Row) => (!only || only(row)) && (!wanted || text(row).includes(wanted));
    const same = before?.wanted === wanted && before.compare === compare && before.only === only;
    const { gone, come } = same ? changed(before.rows, rows, byName) : { gone: new Set<Row>(), come: rows };
    const shown = !wanted && !only && compare === byName ? rows : updated(same ? before.shown : [], gone, come.filter(matches), compare);
    last.current = { rows, shown, wanted, compare, only };
    return shown;
  }, [rows, wanted, compare, only]);
}

/** True for a column of ages: its cells are as old as the response, so the page computes its own. */
export function isAge(column: Column): boolean {
  return column.format === "date" || column.name === "Age";
}

function comparing({ column, way }: Sort, usual: Compare<Row>): Compare<Row> {
  if (!column) return usual;
  const older = (a: Row, b: Row) => (a.created < b.created ? 1 : a.created > b.created ? -1 : 0);
  const cells = (a: Row, b: Row) => COLLATOR.compare(String(a.cells[column.index] ?? ""), String(b.cells[column.index] ?? ""));
  const first = column.index < 0 ? byName : isAge(column) ? older : cells;
  return (a, b) => way * first(a, b) || byName(a, b);
}

function text(row: Row): string {
  return `${row.namespace} ${row.name} ${row.cells.join(" ")}`.toLowerCase();
}
