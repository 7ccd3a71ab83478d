// The planet: objects that need attention first, then the map of cities, then the same as a list. A city without heartbeats is
// shown as lost, in a sentence, on the map and in the list. A chosen city opens a panel beside the map.
import { useMemo } from "preact/hooks";
import type { LiveList, Row } from "../api/listwatch.ts";
import { because } from "../logic/because.ts";
import { citiesOf, lossOf, type City } from "../logic/cities.ts";
import { capacityOf, capacityText } from "../logic/capacity.ts";
import { failoversOf, failoverText, type Failover } from "../logic/failovers.ts";
import { fraction } from "../logic/health.ts";
import { byName } from "../logic/ordered.ts";
import { link, type Route } from "../logic/routes.ts";
import { attention, byUrgency, severity, severityOf, textOf, type Severity } from "../logic/severity.ts";
import { cell, visible } from "../logic/text.ts";
import { useList } from "../state/lists.ts";
import { useSentence } from "../state/answers.ts";
import { useLoaded } from "../state/loaded.ts";
import { placeOf, placesOf, useLocations, WorldMap, type Location } from "../parts/map.tsx";
import { Meter, Pill } from "../parts/severity.tsx";
import { Command, Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { COMPUTE, METRICS, MOVED_FROM, NETWORKING, WORKLOAD_NAME, named } from "./paths.ts";

const EVERY = 30_000; // as Locations are read
const MOST = 8; // problems with their sentence; the list of workloads has all

export function Planet({ route }: { route: Route }) {
  const locations = useLocations();
  const places = useList(`${NETWORKING}/locations`);
  const deployments = useList(`${COMPUTE}/workloaddeployments`);
  const workloads = useList(`${COMPUTE}/workloads`);
  const [placeRows, rows] = [places?.rows.value, deployments?.rows.value];
  const cities = useMemo(() => citiesOf(
    cells(deployments, { city: "City", ready: "Ready", reason: "Reason" }),
    cells(places, { city: "City", nodes: "Nodes", ready: "Ready", reason: "Reason" }).map((each) => ({ ...each, nodes: Number(each.nodes) || 0 })),
    placesOf(locations.value?.items ?? []), placeOf,
  ), [locations.value, placeRows, rows]);
  if (locations.failure && !locations.value && deployments?.failure.value) return <Failed failure={locations.failure} again={locations.again} />;
  if (!deployments?.loaded.value) return <Loading />;
  const lost = lossOf(cities);
  const failovers = failoversIn(deployments);
  const near = (route.query.get("near") ?? "").split(",").filter(Boolean);
  const chosen = cities.find((each) => each.code === route.query.get("city"));
  return (
    <>
      <h1>Planet</h1>
      {lost && <p class="failed" role="status"><Mark state="no">{lost}</Mark>{failovers.map((each) => ` ${cell(failoverText(each))}`)}</p>}
      <Strip cities={cities} workloads={workloads} locations={locations.value?.items ?? []} />
      <div class="planet">
        <div>
          <WorldMap label={`Map of ${cities.length} cities; the same as a list below`} failovers={failovers} within={near} zoom={(codes) => link("planet", [], { near: codes.join(",") })} places={cities.map((each) => ({
            ...each, size: each.desired, share: each.desired ? each.ready / each.desired : 1, label: labelOf(each), chosen: each === chosen,
            href: link("planet", [], { city: each.code }),
          }))} />
          {near.length > 0 && <p><a href={link("planet")}>Whole planet</a></p>}
          {cities.length === 0 ? (
            <p class="empty">No city is here yet. <code>tarmac up</code> brings three; <code>kubectl apply -f examples/web.yaml</code> fills them.</p>
          ) : <><h2>Cities</h2><Cities cities={cities} /></>}
        </div>
        <div>
          {chosen && <Panel city={chosen} deployments={deployments} />}
          <Attention workloads={workloads} />
        </div>
      </div>
      <Command text="kubectl get workloaddeployments -A" />
    </>
  );
}

/** The planet in a few numbers, each with its comparison. */
function Strip({ cities, workloads, locations }: { cities: City[]; workloads: LiveList | null; locations: readonly Location[] }) {
  const found = (workloads?.rows.value ?? []).map((row) => severityOf(row, workloads?.columns.value ?? []));
  const bad = found.filter(attention).length;
  const busy = found.filter((each) => each === "busy").length;
  const down = cities.filter((each) => each.state === "no" && each.nodes !== null && each.word !== "Not ready").length;
  const [ready, desired] = readyOf(workloads, cities);
  return (
    <ul class="summary" aria-label="Summary">
      {workloads?.loaded.value && <li class={bad ? "bad" : ""}><strong>{bad} of {found.length}</strong> workloads need attention</li>}
      {workloads?.loaded.value && <li><strong>{busy}</strong> {busy === 1 ? "rollout" : "rollouts"} in progress</li>}
      <li class={down ? "bad" : ""}><strong>{down} of {cities.length}</strong> cities lost or without a node</li>
      <li class={ready < desired ? "warn" : ""}><strong>{ready} of {desired}</strong> instances ready</li>
      <Used locations={locations} />
    </ul>
  );
}

/** Of all Workloads, or of all cities while those are not known: a lost city and the one that stands in want the same instances. */
function readyOf(workloads: LiveList | null, cities: readonly City[]): [ready: number, desired: number] {
  const pairs = workloads?.loaded.value
    ? workloads.rows.value.map((row) => fraction(textOf(row, workloads.columns.value, "Ready")) ?? [0, 0])
    : cities.map((each) => [each.ready, each.desired]);
  return [0, 1].map((at) => pairs.reduce((all, each) => all + (each[at] ?? 0), 0)) as [number, number];
}

interface Measured {
  items: { usage: Record<string, string> }[];
}

/** CPU and memory that nodes use, of that of ready nodes; nothing for users who may not read it. */
function Used({ locations }: { locations: readonly Location[] }) {
  const { value } = useLoaded<Measured>(`${METRICS}/nodes`, EVERY);
  const found = capacityOf(locations.map((each) => each.status?.allocatable ?? {}), (value?.items ?? []).map((each) => each.usage));
  return <>{found?.map((each) => <li key={each.resource}><strong>{capacityText(each)}</strong> {each.resource === "cpu" ? "CPUs used" : "GiB of memory used"}</li>)}</>;
}

/** Deployments that run instances of a lost city. */
function failoversIn(deployments: LiveList): Failover[] {
  const columns = deployments.columns.value;
  return failoversOf(deployments.rows.value.flatMap((row) => {
    const from = row.labels[MOVED_FROM];
    return from ? [{ from, to: textOf(row, columns, "City"), ready: textOf(row, columns, "Ready") }] : [];
  }));
}

function Attention({ workloads }: { workloads: LiveList | null }) {
  const [rows, columns] = [workloads?.rows.value ?? [], workloads?.columns.value ?? []];
  const found = useMemo(() => rows.map((row) => ({ row, severity: severityOf(row, columns) })).filter((each) => attention(each.severity))
    .sort((a, b) => byUrgency(a.severity, b.severity) || byName(a.row, b.row)), [rows, columns]);
  if (!workloads?.loaded.value) return null;
  return (
    <section aria-label="Needs attention">
      <h2>Needs attention</h2>
      {found.length === 0 && <p class="empty">Every workload is as it should be.</p>}
      <ul class="attention">
        {found.slice(0, MOST).map((each) => <Problem key={each.row.uid} {...each} status={textOf(each.row, columns, "Status")} reason={textOf(each.row, columns, "Reason")} />)}
      </ul>
      {found.length > MOST && <p><a href={link("workloads")}>{found.length - MOST} more</a></p>}
    </section>
  );
}

function Problem({ row, severity: found, status, reason }: { row: Row; severity: Severity; status: string; reason: string }) {
  const said = useSentence(named(COMPUTE, "workloads", row.namespace, row.name));
  return (
    <li>
      <span class="head"><Pill severity={found}>{status}</Pill> <a href={link("workloads", [row.namespace, row.name])}>{visible(`${row.namespace}/${row.name}`)}</a></span>
      <p>{visible(said ? because(said.sentence) : reason)}</p>
      {said?.change && <p class="muted">{visible(said.change)}</p>}
    </li>
  );
}

/** One city beside the map: its deployments, the most urgent first. */
function Panel({ city, deployments }: { city: City; deployments: LiveList }) {
  const columns = deployments.columns.value;
  const rows = deployments.rows.value.filter((row) => textOf(row, columns, "City") === city.code)
    .map((row) => ({ row, severity: severityOf(row, columns) })).sort((a, b) => byUrgency(a.severity, b.severity) || byName(a.row, b.row));
  return (
    <section class="panel" aria-label={`City ${cell(city.code)}`}>
      <h2>{cell(city.code)} <Mark state={city.state}>{city.word}</Mark> <a href={link("planet")}>Close</a></h2>
      <p class="bits"><span><strong>{city.ready} of {city.desired}</strong> instances ready</span><span><strong>{city.nodes ?? "?"}</strong> nodes</span></p>
      <ul class="attention">
        {rows.slice(0, MOST).map(({ row, severity: found }) => (
          <li key={row.uid}>
            <span class="head"><Pill severity={found}>{textOf(row, columns, "Status")}</Pill> <a href={link("workloads", [row.namespace, row.labels[WORKLOAD_NAME] ?? row.name])}>{visible(`${row.namespace}/${row.labels[WORKLOAD_NAME] ?? row.name}`)}</a></span>
            <p><Meter text={textOf(row, columns, "Ready")} severity={found} /> <span class="muted">{cell(textOf(row, columns, "Reason"))}</span></p>
          </li>
        ))}
      </ul>
      <p><a href={link("instances", [], { city: city.code })}>Instances in {cell(city.code)}</a></p>
    </section>
  );
}

function Cities({ cities }: { cities: City[] }) {
  const tone = (each: City): Severity => severity({ ready: `${each.ready}/${each.desired}` });
  const ordered = cities.toSorted((a, b) => RANK[a.state] - RANK[b.state] || a.code.localeCompare(b.code));
  return (
    <Scrolls what="Cities"><table>
      <thead><tr>{["City", "State", "Ready", "Nodes", "Deployments", "Reason"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
      <tbody>
        {ordered.map((each) => (
          <tr key={each.code}>
            <th scope="row"><a href={link("instances", [], { city: each.code })}>{cell(each.code)}</a></th>
            <td><Mark state={each.state}>{each.word}</Mark></td>
            <td>{fraction(`${each.ready}/${each.desired}`) && <Meter text={`${each.ready}/${each.desired}`} severity={tone(each)} />}</td>
            <td>{each.nodes ?? "not known"}</td>
            <td>{each.deployments}</td>
            <td>{cell(each.reason)}</td>
          </tr>
        ))}
      </tbody>
    </table></Scrolls>
  );
}

const RANK = { no: 0, wait: 1, unknown: 2, yes: 3 } as const;

/** A city that is healthy or degraded needs no word: the numbers and the ring say it. */
function labelOf({ code, ready, desired, state, word }: City): string {
  return `${code} ${ready}/${desired}${state === "no" ? ` ${word.toLowerCase()}` : ""}`;
}

/** Cells of a list by the names of its columns. */
function cells<Name extends string>(list: LiveList | null, wanted: Record<Name, string>): Record<Name, string>[] {
  const columns = list?.columns.value ?? [];
  const at = Object.entries<string>(wanted).map(([name, column]): [string, number] => [name, columns.findIndex((each) => each.name === column)]);
  return (list?.rows.value ?? []).map((row) => Object.fromEntries(at.map(([name, index]) => [name, String(row.cells[index] ?? "")])) as Record<Name, string>);
}
