// Progress of the newest revision: old and new instances by city, and the reason each city waits.
import { useState } from "preact/hooks";
import { Failure, failureIn, text } from "../api/requests.ts";
import { health } from "../logic/health.ts";
import { cell, visible } from "../logic/text.ts";
import { useMay } from "../state/rights.ts";
import { Failed, Mark, Scrolls } from "../parts/states.tsx";
import type { Deployment, Parts, Workload } from "./workload.ts";

export function Rollout({ path, workload, deployments }: Parts) {
  const newest = workload.status?.revisions?.at(-1)?.templateHash;
  return (
    <section aria-label="Rollout">
      <p>{visible(progress(workload))}</p>
      {workload.status?.rollout?.failure && <Stopped failure={workload.status.rollout.failure} />}
      <Pause path={path} workload={workload} />
      {deployments.length === 0 ? <p class="muted">No city takes it yet: see why.</p> : (
        <Scrolls what="Cities"><table>
          <thead><tr>{["City", "Placement", "Ready", "New", "Old", "Waits for"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>{deployments.map((each) => <City key={each.metadata.uid} deployment={each} newest={newest} />)}</tbody>
        </table></Scrolls>
      )}
    </section>
  );
}

function progress({ spec, status }: Workload): string {
  const rollout = status?.rollout;
  if (!rollout) return "Nothing has been rolled out yet.";
  const reached = `${rollout.updatedCities ?? 0} of ${rollout.cities ?? 0} cities have it`;
  const why = status?.conditions?.find((each) => each.type === "Progressing")?.message ?? "";
  return `Revision ${rollout.revision}: wave ${rollout.wave} of ${rollout.waves}, ${reached}. ${spec.paused ? "It is paused." : why}`;
}

function Stopped({ failure }: { failure: { city: string; instance?: string; reason: string; message: string } }) {
  return <p class="failed" role="alert"><strong>It was stopped in {visible(failure.city)}.</strong> {visible(`${failure.instance ?? ""} ${failure.reason}: ${failure.message}`.trim())}</p>;
}

function City({ deployment: { spec, status = {} }, newest }: { deployment: Deployment; newest: string | undefined }) {
  // A deployment counts instances of its own template as up to date, which may be an older revision of the Workload.
  const reached = status.revision === newest;
  const updated = reached ? (status.updatedReplicas ?? 0) : 0;
  const { replicas = 0, readyReplicas: ready = 0, desiredReplicas: desired = 0, startFailure } = status;
  const going = status.conditions?.find((each) => each.type === "Progressing");
  const done = ready >= desired && updated >= desired;
  const waits = startFailure ? `${startFailure.instance} ${startFailure.reason}: ${startFailure.message}` : !reached ? "The newest revision has not reached it." : done ? "" : (going?.message ?? "");
  return (
    <tr>
      <th scope="row">{cell(spec.cityCode)}</th><td>{cell(spec.placementName)}</td>
      <td><Mark state={health(ready, desired)}>{`${ready}/${desired}`}</Mark></td><td>{updated}</td><td>{Math.max(0, replicas - updated)}</td>
      <td class="long">{visible(waits)}</td>
    </tr>
  );
}

function Pause({ path, workload }: { path: string; workload: Workload }) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const { name, namespace } = workload.metadata;
  const may = useMay({ verb: "patch", group: "compute.datumapis.com", resource: "workloads", namespace, name });
  const paused = workload.spec.paused ?? false;
  const change = () => {
    const body = JSON.stringify({ spec: { paused: paused ? null : true } });
    text(`${path}?fieldManager=tarmac-dashboard-rollout`, { method: "PATCH", type: "application/merge-patch+json", body }).then(() => setFailure(null), (error: unknown) => setFailure(failureIn(error)));
  };
  return (
    <>
      {failure && <Failed failure={failure} />}
      <p><button type="button" disabled={!may} onClick={change}>{paused ? "Resume" : "Pause"}</button>{!may && <span class="muted"> You may not change workloads here.</span>}</p>
    </>
  );
}
