// A live list as a real table: sorted, filtered, and windowed, so that ten thousand rows cost what fifty do.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Column, LiveList, Row } from "../api/listwatch.ts";
import { age, cell } from "../logic/text.ts";
import { fraction, health } from "../logic/health.ts";
import { now } from "../state/navigation.ts";
import { Failed, Loading, Mark } from "./states.tsx";

const HEIGHT = 32;
const AROUND = 10;
const VIEW = 640;

interface Props {
  list: LiveList | null;
  what: string;
  empty: string;
  href?: (row: Row) => string;
  wide?: boolean;
  keep?: (row: Row) => boolean;
}

export function LiveTable({ list, what, empty, href, wide = false, keep }: Props) {
  const [filter, setFilter] = useState("");
  const [sort, setSort] = useState<[number, number]>([-1, 1]);
  const [top, setTop] = useState(0);
  const scroll = useRef<HTMLDivElement>(null);
  const rows = list?.rows.value;
  const columns = (list?.columns.value ?? []).map((each, index) => ({ ...each, index })).filter((each) => wide || each.priority === 0);
  const spaces = useMemo(() => new Set([...(rows?.values() ?? [])].map((each) => each.namespace)).size > 1, [rows]);
  const shown = useMemo(() => chosen(rows, filter, sort, keep), [rows, filter, sort, keep]);
  if (!list) return <Loading />;
  if (list.failure.value && !list.loaded.value) return <Failed failure={list.failure.value} />;
  if (!list.loaded.value) return <Loading />;
  const first = Math.max(0, Math.floor(top / HEIGHT) - AROUND);
  const last = Math.min(shown.length, Math.ceil((top + VIEW) / HEIGHT) + AROUND);
  const heads = spaces ? [{ name: "Namespace", index: -2 }, ...columns] : columns;
  return (
    <section aria-label={what}>
      <p class="filter">
        <label>Filter <input type="search" data-filter value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /></label>{" "}
        <span class="muted">{shown.length} of {rows?.size ?? 0}</span>
      </p>
      {shown.length === 0 ? (
        <p class="muted">{rows?.size ? <>Nothing matches. <button type="button" onClick={() => setFilter("")}>Clear the filter</button></> : empty}</p>
      ) : (
        <div class="scroll" ref={scroll} tabIndex={0} role="region" aria-label={`${what}, scrolls`} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
          <table aria-rowcount={shown.length + 1}>
            <thead>
              <tr aria-rowindex={1}>
                {heads.map((each) => (
                  <th key={each.index} scope="col" aria-sort={sort[0] === each.index ? (sort[1] > 0 ? "ascending" : "descending") : "none"}>
                    <button type="button" onClick={() => setSort([each.index, sort[0] === each.index ? -sort[1] : 1])}>{each.name}</button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              <Spacer rows={first} span={heads.length} />
              {shown.slice(first, last).map((row, index) => (
                <tr key={row.uid} aria-rowindex={first + index + 2}>
                  {heads.map((each) => <Cell key={each.index} row={row} column={each as Column & { index: number }} {...(href ? { href } : {})} />)}
                </tr>
              ))}
              <Spacer rows={shown.length - last} span={heads.length} />
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Cell({ row, column, href }: { row: Row; column: Column & { index: number }; href?: (row: Row) => string }) {
  if (column.index === -2) return <td>{cell(row.namespace)}</td>;
  const value = row.cells[column.index];
  if (column.name === "Name" && href) return <th scope="row"><a href={href(row)}>{cell(value)}</a></th>;
  if (column.format === "date" || column.name === "Age") return <td>{age(row.created, now.value)}</td>;
  const parts = typeof value === "string" ? fraction(value) : null;
  if (parts && column.name === "Ready") return <td><Mark state={health(...parts)}>{cell(value)}</Mark></td>;
  return <td title={cell(value)}>{cell(value)}</td>;
}

function Spacer({ rows, span }: { rows: number; span: number }) {
  const fill = (made: HTMLTableCellElement | null) => made?.style.setProperty("height", `${rows * HEIGHT}px`); // by CSSOM: the policy forbids the attribute
  return rows > 0 ? <tr aria-hidden="true"><td class="spacer" colSpan={span} ref={fill} /></tr> : null;
}

const COLLATOR = new Intl.Collator(undefined, { numeric: true });

function chosen(rows: ReadonlyMap<string, Row> | undefined, filter: string, [by, way]: [number, number], keep?: (row: Row) => boolean): Row[] {
  const wanted = filter.toLowerCase();
  const found = [...(rows?.values() ?? [])].filter((row) => (!keep || keep(row)) && (!wanted || text(row).includes(wanted)));
  const key = (row: Row): string => (by < 0 ? (by === -2 ? row.namespace : `${row.namespace}/${row.name}`) : String(row.cells[by] ?? ""));
  const keyed = found.map((row): [string, Row] => [key(row), row]);
  // Names in the order of the server, in which most rows are already: ten thousand are put in order in a frame.
  const compare = by < 0 ? (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0) : COLLATOR.compare;
  return keyed.sort(([a], [b]) => way * compare(a, b)).map(([, row]) => row);
}

function text(row: Row): string {
  return `${row.namespace} ${row.name} ${row.cells.join(" ")}`.toLowerCase();
}
