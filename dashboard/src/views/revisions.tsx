// The revisions of a Workload: their differences from the current template, and undo.
import { useState } from "preact/hooks";
import { differences } from "../logic/differences.ts";
import type { Revision } from "../logic/timeline.ts";
import { age, cell } from "../logic/text.ts";
import { useLoaded } from "../state/loaded.ts";
import { now, route } from "../state/navigation.ts";
import { useMay } from "../state/rights.ts";
import { Failed, Loading, Scrolls } from "../parts/states.tsx";
import { templateOf, Undo, type ControllerRevision } from "./undo.tsx";
import type { Parts, Workload } from "./workload.ts";

export function Revisions({ path, workload }: Parts) {
  const [chosen, setChosen] = useState(Number(route.peek().query.get("compare") ?? 0));
  const revisions = [...(workload.status?.revisions ?? [])].reverse();
  const shown = revisions.find((each) => each.number === chosen);
  if (revisions.length === 0) return <p class="muted">Nothing has been rolled out yet.</p>;
  return (
    <section aria-label="Revisions">
      <Scrolls what="Revisions"><table>
        <thead><tr>{["Revision", "Begun", "Complete", "Template", "Differences"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
        <tbody>
          {revisions.map((each, index) => (
            <tr key={each.number}>
              <th scope="row">{each.number}</th><td>{age(each.created, now.value)}</td><td>{each.completed ? age(each.completed, now.value) : "never"}</td><td>{cell(each.templateHash)}</td>
              <td>{index === 0 ? "the present one" : <button type="button" aria-pressed={each.number === chosen} onClick={() => setChosen(each.number)}>Compare {each.number} with the present</button>}</td>
            </tr>
          ))}
        </tbody>
      </table></Scrolls>
      {shown && <Compared key={shown.number} path={path} workload={workload} revision={shown} />}
    </section>
  );
}

function Compared({ path, workload, revision }: { path: string; workload: Workload; revision: Revision }) {
  const [asking, setAsking] = useState(false);
  const { namespace, name } = workload.metadata;
  const { value, failure, again } = useLoaded<ControllerRevision>(templateOf(workload, revision));
  const may = useMay({ verb: "patch", group: "compute.datumapis.com", resource: "workloads", namespace, name });
  if (!value) return failure ? <Failed failure={failure} again={again} /> : <Loading />;
  const template = value.data.spec.template;
  const found = differences(template, workload.spec.template);
  return (
    <>
      <h2>Revision {revision.number} and the present</h2>
      {found.length === 0 ? <p class="muted">They are the same.</p> : (
        <>
          <Scrolls what="Differences"><table>
            <thead><tr><th scope="col">Field</th><th scope="col">Revision {revision.number}</th><th scope="col">Present</th></tr></thead>
            <tbody>{found.map((each) => <tr key={each.field}><th scope="row" class="long">{cell(each.field)}</th><td class="long">{cell(each.before)}</td><td class="long">{cell(each.after)}</td></tr>)}</tbody>
          </table></Scrolls>
          <p><button type="button" disabled={!may} onClick={() => setAsking(true)}>Undo to revision {revision.number}…</button>{!may && <span class="muted"> You may not change workloads here.</span>}</p>
        </>
      )}
      {asking && <Undo path={path} workload={workload} revision={revision} closed={() => setAsking(false)} />}
    </>
  );
}
