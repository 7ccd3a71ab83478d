// Progress of the newest revision: old and new instances by city, and the reason each city waits.
import { useState } from "preact/hooks";
import { Failure, failureIn, text } from "../api/requests.ts";
import { health } from "../logic/health.ts";
import { link } from "../logic/routes.ts";
import { TONES, type Severity } from "../logic/severity.ts";
import { cell, visible } from "../logic/text.ts";
import { wavesOf, type WaveCity } from "../logic/waves.ts";
import { useMay } from "../state/rights.ts";
import { Failed, Mark, Scrolls } from "../parts/states.tsx";
import type { Deployment, Parts, Workload } from "./workload.ts";

const USUAL_WINDOW = 10; // seconds; the default of the API

export function Rollout({ path, workload, deployments }: Parts) {
  const newest = workload.status?.revisions?.at(-1)?.templateHash;
  return (
    <section aria-label="Rollout">
      <p>{visible(progress(workload))}</p>
      {workload.status?.rollout?.failure && <Stopped failure={workload.status.rollout.failure} />}
      <Pause path={path} workload={workload} />
      {deployments.length > 0 && <Waves workload={workload} deployments={deployments} newest={newest} />}
      {deployments.length === 0 ? <p class="empty">No city takes it yet: see why.</p> : (
        <Scrolls what="Cities"><table>
          <thead><tr>{["City", "Placement", "Ready", "New", "Old", "Waits for"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>{deployments.map((each) => <City key={each.metadata.uid} deployment={each} newest={newest} />)}</tbody>
        </table></Scrolls>
      )}
    </section>
  );
}

/** The cities in their waves, each as a dot that says how far it is. */
function Waves({ workload: { metadata, spec, status }, deployments, newest }: { workload: Workload; deployments: Deployment[]; newest: string | undefined }) {
  const failed = status?.rollout?.failure?.city;
  const waves = wavesOf(deployments.map((each) => waveCity(each, spec.placements ?? [], newest, failed)), spec.rollout?.waves === "AllAtOnce");
  const rollout = status?.rollout;
  const current = rollout && (rollout.failure || rollout.wave < rollout.waves || (rollout.updatedCities ?? 0) < (rollout.cities ?? 0)) ? rollout.wave : 0;
  return (
    <ol class="waves" aria-label="Waves">
      {waves.map(({ number, cities }) => (
        <li key={number} class={number === current ? "now" : ""}>
          <h2>Wave {number}{number === current && ", under way"}</h2>
          <ul>
            {cities.map((each) => (
              <li key={`${each.city}/${each.order}`}>
                <span class="dots" aria-hidden="true"><i class={TONES[toneOf(each)]} /></span>
                <a href={link("instances", [], { city: each.city, ns: metadata.namespace })}>{cell(each.city)}</a>
                <span>{each.failed ? "failed" : each.reached ? `${each.updated} of ${each.desired}` : "waits"}</span>
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ol>
  );
}

function waveCity({ spec, status = {} }: Deployment, placements: { name: string; cityCodes?: string[] }[], newest: string | undefined, failed: string | undefined): WaveCity {
  const placement = placements.findIndex((each) => each.name === spec.placementName);
  const place = placements[placement]?.cityCodes?.indexOf(spec.cityCode) ?? -1;
  const reached = status.revision === newest;
  const { readyReplicas: ready = 0, updatedReplicas: updated = 0, desiredReplicas: desired = 0 } = status;
  return { city: spec.cityCode, order: placement * 10_000 + place, reached, ready, updated: reached ? Math.min(ready, updated) : 0, desired, failed: spec.cityCode === failed };
}

function toneOf(city: WaveCity): Severity {
  if (city.failed) return "bad";
  if (!city.reached) return "unknown";
  return city.updated >= city.desired ? "ok" : "busy";
}

function progress({ spec, status }: Workload): string {
  const rollout = status?.rollout;
  if (!rollout) return "Nothing has been rolled out yet.";
  const reached = `${rollout.updatedCities ?? 0} of ${rollout.cities ?? 0} cities have it`;
  const why = status?.conditions?.find((each) => each.type === "Progressing")?.message ?? "";
  const window = spec.rollout?.minReadySeconds ?? USUAL_WINDOW;
  const observed = rollout.waves > 1 && rollout.wave < rollout.waves ? ` Each city stays ready for ${window} s before the next wave.` : "";
  const now = spec.paused ? "It is paused." : why && !why.endsWith(".") ? `${why}.` : why;
  return `Revision ${rollout.revision}: wave ${rollout.wave} of ${rollout.waves}, ${reached}. ${now}${observed}`;
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
