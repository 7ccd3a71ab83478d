// A live list as a real table: sorted, filtered, and windowed, so that ten thousand rows cost what fifty do.
import { Component } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { LiveList, Row } from "../api/listwatch.ts";
import { age, cell, visible } from "../logic/text.ts";
import { fraction, health } from "../logic/health.ts";
import { now } from "../state/navigation.ts";
import { isAge, useChosen, type Placed, type Sort } from "./chosen.ts";
import { Failed, Loading, Mark } from "./states.tsx";

const HEIGHT = 32;
const VIEW = 20; // rows that can be seen at a time
const AROUND = 10;
const STEP = 10; // rows by which the window moves; even, so that no stripe changes its colour
const NONE: readonly Row[] = [];
const NAMESPACE: Placed = { name: "Namespace", type: "string", format: "", priority: 0, index: -1 };

type Href = (row: Row) => string;

interface Props {
  list: LiveList | null;
  what: string;
  empty: string;
  href?: Href;
  wide?: boolean;
}

export function LiveTable({ list, what, empty, href, wide = false }: Props) {
  const [filter, setFilter] = useState("");
  const [sort, setSort] = useState<Sort>({ column: null, way: 1 });
  const [top, setTop] = useState(0);
  const rows = list?.rows.value ?? NONE;
  const columns = list?.columns.value;
  const spaces = rows[0]?.namespace !== rows.at(-1)?.namespace;
  const heads = useMemo(() => {
    const placed = (columns ?? []).map((each, index) => ({ ...each, index })).filter((each) => wide || each.priority === 0);
    return spaces ? [NAMESPACE, ...placed] : placed;
  }, [columns, wide, spaces]);
  const shown = useChosen(rows, filter, sort);
  if (!list) return <Loading />;
  if (list.failure.value && !list.loaded.value) return <Failed failure={list.failure.value} />;
  if (!list.loaded.value) return <Loading />;
  const first = Math.max(0, top - AROUND);
  const last = Math.min(shown.length, top + STEP + VIEW + AROUND);
  const scrolled = (to: number) => setTop(Math.floor(to / (STEP * HEIGHT)) * STEP);
  return (
    <section aria-label={what}>
      <p class="filter">
        <label>Filter <input type="search" data-filter value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /></label>{" "}
        <span class="muted">{shown.length} of {rows.length}</span>
      </p>
      {shown.length === 0 ? (
        <p class="muted">{rows.length ? <>Nothing matches. <button type="button" onClick={() => setFilter("")}>Clear the filter</button></> : empty}</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={`${what}, scrolls`} onScroll={(event) => scrolled(event.currentTarget.scrollTop)}>
          <table aria-rowcount={shown.length + 1}>
            <thead><tr aria-rowindex={1}>{heads.map((each) => <Head key={each.index} column={each} sort={sort} choose={setSort} />)}</tr></thead>
            <tbody>
              <Spacer rows={first} span={heads.length} />
              {shown.slice(first, last).map((row, index) => <TableRow key={row.uid} row={row} index={first + index + 2} heads={heads} href={href} />)}
              <Spacer rows={shown.length - last} span={heads.length} />
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Head({ column, sort, choose }: { column: Placed; sort: Sort; choose: (sort: Sort) => void }) {
  const way = sort.column?.index === column.index ? sort.way : 0;
  return (
    <th scope="col" aria-sort={way ? (way > 0 ? "ascending" : "descending") : "none"}>
      <button type="button" onClick={() => choose({ column, way: way > 0 ? -1 : 1 })}>{visible(column.name)}</button>
    </th>
  );
}

interface RowProps {
  row: Row;
  index: number;
  heads: readonly Placed[];
  href: Href | undefined;
}

/** Drawn anew only when it is another row or in another place. Where it leads follows from the row. */
class TableRow extends Component<RowProps> {
  override shouldComponentUpdate({ row, index, heads }: RowProps): boolean {
    return row !== this.props.row || index !== this.props.index || heads !== this.props.heads;
  }

  override render({ row, index, heads, href }: RowProps) {
    return <tr aria-rowindex={index}>{heads.map((each) => <Cell key={each.index} row={row} column={each} href={href} />)}</tr>;
  }
}

function Cell({ row, column, href }: { row: Row; column: Placed; href: Href | undefined }) {
  if (column === NAMESPACE) return <td>{cell(row.namespace)}</td>;
  const value = row.cells[column.index];
  if (column.name === "Name" && href) return <th scope="row"><a href={href(row)}>{cell(value)}</a></th>;
  if (isAge(column)) return <td>{age(row.created, now.value)}</td>;
  const parts = typeof value === "string" ? fraction(value) : null;
  if (parts && column.name === "Ready") return <td><Mark state={health(...parts)}>{cell(value)}</Mark></td>;
  return <td title={cell(value)}>{cell(value)}</td>;
}

function Spacer({ rows, span }: { rows: number; span: number }) {
  const fill = (made: HTMLTableCellElement | null) => made?.style.setProperty("height", `${rows * HEIGHT}px`); // by CSSOM: the policy forbids the attribute
  return rows > 0 ? <tr aria-hidden="true"><td class="spacer" colSpan={span} ref={fill} /></tr> : null;
}
