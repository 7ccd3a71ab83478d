// The revisions of a Workload: their differences from the current template, and undo.
//
// Undo replaces the whole template, as `tarmac rollout undo` does: an apply would leave fields that the revision lacks and
// that other field managers own. Its plan is shown first.
import { useEffect, useState } from "preact/hooks";
import { plan } from "../api/changes.ts";
import { Failure, failureIn, json } from "../api/requests.ts";
import { differences } from "../logic/differences.ts";
import { mustBeTyped } from "../logic/ending.ts";
import { endings, type Plan } from "../logic/plans.ts";
import type { Revision } from "../logic/timeline.ts";
import { age, cell } from "../logic/text.ts";
import { announced } from "../state/announcing.ts";
import { useLoaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";
import { useMay } from "../state/rights.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Confirm, WhatEnds } from "../parts/ending.tsx";
import { PlanShown } from "../parts/plan.tsx";
import { Failed, Loading, Scrolls } from "../parts/states.tsx";
import { named } from "./paths.ts";
import type { Parts, Workload } from "./workload.ts";

interface ControllerRevision {
  data: { spec: { template: unknown } };
}

export function Revisions({ path, workload }: Parts) {
  const [chosen, setChosen] = useState(0);
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
  const { value, failure, again } = useLoaded<ControllerRevision>(named("/apis/apps/v1", "controllerrevisions", namespace, revision.template));
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
      {asking && <Undo path={path} workload={workload} revision={revision.number} template={template} closed={() => setAsking(false)} />}
    </>
  );
}

function Undo({ path, workload, revision, template, closed }: { path: string; workload: Workload; revision: number; template: unknown; closed: () => void }) {
  const [found, setFound] = useState<Plan | Failure | null>(null);
  const { name, generation } = workload.metadata;
  useEffect(() => {
    plan(path, { ...workload, spec: { ...workload.spec, template } }).then(setFound, (error: unknown) => setFound(failureIn(error)));
  }, []);
  const undo = async () => {
    // Only if the spec is unchanged since the plan was shown; the status may have changed.
    const patch = [{ op: "test", path: "/metadata/generation", value: generation }, { op: "replace", path: "/spec/template", value: template }];
    try {
      await json(`${path}?fieldManager=tarmac-dashboard-rollout`, { method: "PATCH", type: "application/json-patch+json", body: JSON.stringify(patch) });
      announced.value = `${name} goes back to revision ${revision}.`;
      closed();
    } catch (error) {
      setFound(failureIn(error));
    }
  };
  const ends = found && !(found instanceof Failure) ? [...endings(found)] : [];
  const ended = ends.reduce((sum, [, count]) => sum + count, 0);
  return (
    <Dialog title={`Undo to revision ${revision}`} closed={closed}>
      {found === null && <Loading />}
      {found instanceof Failure && <Failed failure={found} />}
      {found && !(found instanceof Failure) && <>
        <PlanShown plan={found} />
        {ended > 0 && <WhatEnds ends={{ cities: ends, kinds: [], instances: ended }} />}
        <Confirm name={name} verb="Undo" typed={mustBeTyped(ended)} act={() => void undo()} />
      </>}
      <button type="button" onClick={closed}>Cancel</button>
    </Dialog>
  );
}
