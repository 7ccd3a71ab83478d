// A live list as a real table: sorted, filtered, and windowed, so that ten thousand rows cost as much as fifty.
import { Component, type ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { LiveList, Row } from "../api/listwatch.ts";
import { age, cell, visible } from "../logic/text.ts";
import { fraction, health } from "../logic/health.ts";
import { byName } from "../logic/ordered.ts";
import type { Severity } from "../logic/severity.ts";
import { now } from "../state/navigation.ts";
import { isAge, useChosen, type Placed, type Sort } from "./chosen.ts";
import { Meter, Pill } from "./severity.tsx";
import { Failed, Loading, Mark } from "./states.tsx";
import { NAMES, useUrgency } from "./urgency.ts";

const HEIGHT = 34;
const AROUND = 10;
const STEP = 10; // rows by which the window moves; even, so that no stripe changes its colour
const NONE: readonly Row[] = [];
const NAMESPACE: Placed = { name: "Namespace", type: "string", format: "", priority: 0, index: -1 };
const MORE = -2; // the place of the first column that the page adds; the next ones are below it

type Href = (row: Row) => string;

interface Props {
  list: LiveList | null;
  what: string;
  empty: string;
  href?: Href;
  wide?: boolean;
  /** The most urgent rows come first, and can be chosen by their state. */
  urgent?: boolean;
  /** Columns that the page adds, in front of the age. Kept between calls: rows are drawn anew when it changes. */
  more?: readonly More[];
  /** Columns that those say better. */
  without?: readonly string[];
}

export interface More {
  name: string;
  render: (row: Row, severity: Severity) => ComponentChildren;
}

const NO_MORE: readonly More[] = [];
const NO_NAMES: readonly string[] = [];

export function LiveTable({ list, what, empty, href, wide = false, urgent = false, more = NO_MORE, without = NO_NAMES }: Props) {
  const [filter, setFilter] = useState("");
  const [state, setState] = useState<Severity | null>(null);
  const [sort, setSort] = useState<Sort>({ column: null, way: 1 });
  const [top, setTop] = useState(0);
  const rows = list?.rows.value ?? NONE;
  const columns = list?.columns.value;
  const spaces = rows[0]?.namespace !== rows.at(-1)?.namespace;
  const heads = useMemo(() => {
    const placed = (columns ?? []).map((each, index) => ({ ...each, index })).filter((each) => (wide || each.priority === 0) && !without.includes(each.name));
    if (urgent) placed.sort((a, b) => rank(a) - rank(b)); // the state beside the name
    const added = more.map((each, index) => ({ name: each.name, type: "string", format: "", priority: 0, index: MORE - index }));
    const last = placed.findIndex(isAge);
    const all = last < 0 ? [...placed, ...added] : [...placed.slice(0, last), ...added, ...placed.slice(last)];
    return spaces ? [NAMESPACE, ...all] : all;
  }, [columns, wide, spaces, more, urgent, without]);
  const urgency = useUrgency(rows, columns);
  const only = useMemo(() => (state ? (row: Row) => urgency.of(row) === state : null), [state, urgency.of]);
  const shown = useChosen(rows, { filter, sort, usual: urgent ? urgency.order : byName, only });
  if (!list) return <Loading />;
  if (list.failure.value && !list.loaded.value) return <Failed failure={list.failure.value} />;
  if (!list.loaded.value) return <Loading />;
  const first = Math.max(0, top - AROUND);
  const last = Math.min(shown.length, top + STEP + Math.ceil(innerHeight / HEIGHT) + AROUND);
  const scrolled = (to: number) => setTop(Math.floor(to / (STEP * HEIGHT)) * STEP);
  return (
    <section aria-label={what}>
      <p class="filter">
        <label>Filter <input type="search" data-filter value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /></label>{" "}
        <span class="muted">{shown.length} of {rows.length}</span>
        {urgent && urgency.counts.length > 1 && urgency.counts.map(([each, count]) => (
          <button type="button" key={each} class="chip" aria-pressed={state === each} onClick={() => setState(state === each ? null : each)}>{NAMES[each]} {count}</button>
        ))}
      </p>
      {shown.length === 0 ? (
        <p class="muted">{rows.length ? <>Nothing matches. <button type="button" onClick={() => (setFilter(""), setState(null))}>Clear the filter</button></> : empty}</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={`${what}, scrolls`} onScroll={(event) => scrolled(event.currentTarget.scrollTop)}>
          <table aria-rowcount={shown.length + 1}>
            <thead><tr aria-rowindex={1}>{heads.map((each) => <Head key={each.index} column={each} sort={sort} choose={setSort} />)}</tr></thead>
            <tbody>
              <Spacer rows={first} span={heads.length} />
              {shown.slice(first, last).map((row, index) => <TableRow key={row.uid} row={row} index={first + index + 2} heads={heads} href={href} severity={urgency.of(row)} more={more} />)}
              <Spacer rows={shown.length - last} span={heads.length} />
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function rank({ name }: Placed): number {
  return name === "Name" ? 0 : name === "Status" ? 1 : 2;
}

function Head({ column, sort, choose }: { column: Placed; sort: Sort; choose: (sort: Sort) => void }) {
  const way = sort.column?.index === column.index ? sort.way : 0;
  if (column.index <= MORE) return <th scope="col">{visible(column.name)}</th>;
  return (
    <th scope="col" class={column.type === "integer" ? "number" : undefined} aria-sort={way ? (way > 0 ? "ascending" : "descending") : "none"}>
      <button type="button" onClick={() => choose({ column, way: way > 0 ? -1 : 1 })}>{visible(column.name)}<span aria-hidden="true">{way ? (way > 0 ? "↑" : "↓") : ""}</span></button>
    </th>
  );
}

interface RowProps {
  row: Row;
  index: number;
  heads: readonly Placed[];
  href: Href | undefined;
  severity: Severity;
  more: readonly More[];
}

/** Drawn anew only when it is another row or in another place. Where it leads follows from the row. */
class TableRow extends Component<RowProps> {
  override shouldComponentUpdate({ row, index, heads }: RowProps): boolean {
    return row !== this.props.row || index !== this.props.index || heads !== this.props.heads;
  }

  override render({ row, index, heads, ...rest }: RowProps) {
    return <tr aria-rowindex={index}>{heads.map((each) => <Cell key={each.index} row={row} column={each} {...rest} />)}</tr>;
  }
}

function Cell({ row, column, href, severity, more }: Omit<RowProps, "index" | "heads"> & { column: Placed }) {
  if (column === NAMESPACE) return <td>{cell(row.namespace)}</td>;
  if (column.index <= MORE) return <td>{more[MORE - column.index]?.render(row, severity)}</td>;
  const value = row.cells[column.index];
  if (column.name === "Name" && href) return <th scope="row"><a href={href(row)}>{cell(value)}</a></th>;
  if (isAge(column)) return <td>{age(row.created, now.value)}</td>;
  const parts = typeof value === "string" ? fraction(value) : null;
  if (parts && column.name === "Ready") return <td>{severity === "unknown" ? <Mark state={health(...parts)}>{cell(value)}</Mark> : <Meter text={cell(value)} severity={severity} />}</td>;
  if (column.name === "Status" && typeof value === "string" && value) return <td title={cell(value)}><Pill severity={severity}>{value}</Pill></td>;
  return <td class={column.type === "integer" ? "number" : undefined} title={cell(value)}>{cell(value)}</td>;
}

function Spacer({ rows, span }: { rows: number; span: number }) {
  const fill = (made: HTMLTableCellElement | null) => made?.style.setProperty("height", `${rows * HEIGHT}px`); // by CSSOM: the policy forbids the attribute
  return rows > 0 ? <tr aria-hidden="true"><td class="spacer" colSpan={span} ref={fill} /></tr> : null;
}
