// The map: each city with what is ready of what is wanted there, its nodes and its worst reason; the same as a list.
import { useMemo } from "preact/hooks";
import type { LiveList, Row } from "../api/listwatch.ts";
import { fraction, health, worst, type State } from "../logic/health.ts";
import { link } from "../logic/routes.ts";
import { cell } from "../logic/text.ts";
import { useList } from "../state/lists.ts";
import { placeOf, placesOf, useLocations, WorldMap, type Location } from "../parts/map.tsx";
import { Command, Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { COMPUTE } from "./paths.ts";

interface City {
  code: string;
  at: [number, number] | null;
  ready: number;
  desired: number;
  deployments: number;
  state: State;
  reason: string;
}

export function Planet() {
  const locations = useLocations();
  const deployments = useList(`${COMPUTE}/workloaddeployments`);
  const rows = deployments?.rows.value;
  const cities = useMemo(() => citiesOf(locations.value?.items ?? [], deployments), [locations.value, rows]);
  if (locations.failure && !locations.value && deployments?.failure.value) return <Failed failure={locations.failure} again={locations.again} />;
  if (!deployments?.loaded.value) return <Loading />;
  return (
    <>
      <h1>Planet</h1>
      <WorldMap label={`Map of ${cities.length} cities; the same as a list below`} places={cities.map((each) => ({
        ...each, size: each.desired, label: `${each.code} ${each.ready}/${each.desired}`, href: link("instances", [], { city: each.code }),
      }))} />
      {cities.length === 0 ? (
        <p class="muted">No city is here yet. <code>tarmac up</code> brings three; <code>kubectl apply -f examples/web.yaml</code> fills them.</p>
      ) : (
        <Scrolls what="Cities"><table>
          <thead><tr><th scope="col">City</th><th scope="col">Ready</th><th scope="col">Deployments</th><th scope="col">Reason</th></tr></thead>
          <tbody>
            {cities.map((each) => (
              <tr key={each.code}>
                <th scope="row"><a href={link("instances", [], { city: each.code })}>{cell(each.code)}</a></th>
                <td><Mark state={each.state}>{`${each.ready}/${each.desired}`}</Mark></td>
                <td>{each.deployments}</td>
                <td>{cell(each.reason)}</td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
      <Command text="kubectl get workloaddeployments -A" />
    </>
  );
}

function citiesOf(locations: Location[], deployments: LiveList | null): City[] {
  const found = new Map<string, City>();
  const city = (code: string): City => {
    const known = found.get(code) ?? { code, at: placeOf(code), ready: 0, desired: 0, deployments: 0, state: "unknown" as State, reason: "" };
    found.set(code, known);
    return known;
  };
  for (const [code, at] of placesOf(locations)) city(code).at = at;
  const columns = deployments?.columns.value ?? [];
  const index = (name: string) => columns.findIndex((each) => each.name === name);
  const [where, ready, reason] = [index("City"), index("Ready"), index("Reason")];
  for (const row of deployments?.rows.value.values() ?? []) add(city(String(row.cells[where] ?? "")), row, ready, reason);
  for (const each of found.values()) if (!each.deployments) each.state = "yes";
  return [...found.values()].filter((each) => each.code).sort((a, b) => a.code.localeCompare(b.code));
}

function add(city: City, row: Row, ready: number, reason: number): void {
  const [some, all] = fraction(String(row.cells[ready] ?? "")) ?? [0, 0];
  const state = health(some, all);
  city.reason = state === "yes" ? city.reason : String(row.cells[reason] ?? "") || city.reason;
  city.state = city.deployments ? worst([city.state, state]) : state;
  city.ready += some;
  city.desired += all;
  city.deployments += 1;
}
