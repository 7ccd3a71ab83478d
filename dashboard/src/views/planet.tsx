// The map: each city with its ready and wanted instances, its nodes and its worst reason; the same as a list. A city without
// heartbeats is shown as lost, in a sentence, on the map and in the list.
import { useMemo } from "preact/hooks";
import type { LiveList } from "../api/listwatch.ts";
import { citiesOf, lossOf, type City } from "../logic/cities.ts";
import { link } from "../logic/routes.ts";
import { cell } from "../logic/text.ts";
import { useList } from "../state/lists.ts";
import { placeOf, placesOf, useLocations, WorldMap } from "../parts/map.tsx";
import { Command, Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { COMPUTE, NETWORKING } from "./paths.ts";

export function Planet() {
  const locations = useLocations();
  const places = useList(`${NETWORKING}/locations`);
  const deployments = useList(`${COMPUTE}/workloaddeployments`);
  const [placeRows, rows] = [places?.rows.value, deployments?.rows.value];
  const cities = useMemo(() => citiesOf(
    cells(deployments, { city: "City", ready: "Ready", reason: "Reason" }),
    cells(places, { city: "City", nodes: "Nodes", ready: "Ready", reason: "Reason" }).map((each) => ({ ...each, nodes: Number(each.nodes) || 0 })),
    placesOf(locations.value?.items ?? []), placeOf,
  ), [locations.value, placeRows, rows]);
  if (locations.failure && !locations.value && deployments?.failure.value) return <Failed failure={locations.failure} again={locations.again} />;
  if (!deployments?.loaded.value) return <Loading />;
  const lost = lossOf(cities);
  return (
    <>
      <h1>Planet</h1>
      {lost && <p class="failed" role="status"><Mark state="no">{lost}</Mark></p>}
      <WorldMap label={`Map of ${cities.length} cities; the same as a list below`} places={cities.map((each) => ({
        ...each, size: each.desired, label: labelOf(each), href: link("instances", [], { city: each.code }),
      }))} />
      {cities.length === 0 ? (
        <p class="muted">No city is here yet. <code>tarmac up</code> brings three; <code>kubectl apply -f examples/web.yaml</code> fills them.</p>
      ) : <Cities cities={cities} />}
      <Command text="kubectl get workloaddeployments -A" />
    </>
  );
}

function Cities({ cities }: { cities: City[] }) {
  return (
    <Scrolls what="Cities"><table>
      <thead><tr>{["City", "State", "Ready", "Nodes", "Deployments", "Reason"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
      <tbody>
        {cities.map((each) => (
          <tr key={each.code}>
            <th scope="row"><a href={link("instances", [], { city: each.code })}>{cell(each.code)}</a></th>
            <td><Mark state={each.state}>{each.word}</Mark></td>
            <td>{`${each.ready}/${each.desired}`}</td>
            <td>{each.nodes ?? "not known"}</td>
            <td>{each.deployments}</td>
            <td>{cell(each.reason)}</td>
          </tr>
        ))}
      </tbody>
    </table></Scrolls>
  );
}

/** Healthy cities need no word: the numbers say it. */
function labelOf({ code, ready, desired, state, word }: City): string {
  return `${code} ${ready}/${desired}${state === "yes" ? "" : ` ${word.toLowerCase()}`}`;
}

/** Cells of a list by the names of its columns. */
function cells<Name extends string>(list: LiveList | null, wanted: Record<Name, string>): Record<Name, string>[] {
  const columns = list?.columns.value ?? [];
  const at = Object.entries<string>(wanted).map(([name, column]): [string, number] => [name, columns.findIndex((each) => each.name === column)]);
  return (list?.rows.value ?? []).map((row) => Object.fromEntries(at.map(([name, index]) => [name, String(row.cells[index] ?? "")])) as Record<Name, string>);
}
