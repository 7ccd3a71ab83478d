// Progress of the newest revision: its waves as columns, the instances that stop it, and the reason each city waits.
import { useState } from "preact/hooks";
import { Failure, failureIn, text } from "../api/requests.ts";
import { health } from "../logic/health.ts";
import { observing } from "../logic/observing.ts";
import { link } from "../logic/routes.ts";
import type { Severity } from "../logic/severity.ts";
import { cell, lasting, visible } from "../logic/text.ts";
import { wavesOf, type WaveCity } from "../logic/waves.ts";
import { now } from "../state/navigation.ts";
import { useMay } from "../state/rights.ts";
import { Ring } from "../parts/ring.tsx";
import { Pill } from "../parts/severity.tsx";
import { Failed as Refused, Mark, Scrolls } from "../parts/states.tsx";
import { Failing, type Failed } from "./failing.tsx";
import { before, Undo } from "./undo.tsx";
import type { Condition, Deployment, Parts, Workload } from "./workload.ts";

const USUAL_WINDOW = 10; // seconds; the default of the API

const MOST = 3; // failing instances with their logs

export function Rollout({ path, workload, deployments }: Parts) {
  const newest = workload.status?.revisions?.at(-1)?.templateHash;
  const failing = failingOf(workload, deployments, newest);
  const failure = workload.status?.rollout?.failure;
  return (
    <section aria-label="Rollout">
      <p class="said">{visible(progress(workload))}</p>
      {failure && <Stopped failure={failure} />}
      <Actions path={path} workload={workload} urgent={failing.length > 0 || failure !== undefined} />
      {failing.slice(0, MOST).map((each) => <Failing key={each.instance} namespace={workload.metadata.namespace} failed={each} />)}
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

/** Instances that stop the rollout: the one that the server names first, then one of each city that cannot start its own. */
function failingOf({ status }: Workload, deployments: Deployment[], newest: string | undefined): Failed[] {
  const named = status?.rollout?.failure;
  const first = named?.instance ? [{ ...named, instance: named.instance }] : [];
  const others = deployments.flatMap(({ spec, status: found }) => (found?.startFailure && found.revision === newest ? [{ city: spec.cityCode, ...found.startFailure }] : []));
  return [...first, ...others.filter((each) => each.instance !== named?.instance)];
}

/** The cities in their waves, each as a ring that fills as its instances are replaced. */
function Waves({ workload: { metadata, spec, status }, deployments, newest }: { workload: Workload; deployments: Deployment[]; newest: string | undefined }) {
  const rollout = status?.rollout;
  const waves = wavesOf(deployments.map((each) => waveCity(each, spec.placements ?? [], newest, rollout?.failure?.city)), spec.rollout?.waves === "AllAtOnce");
  const current = rollout && (rollout.failure || rollout.wave < rollout.waves || (rollout.updatedCities ?? 0) < (rollout.cities ?? 0)) ? rollout.wave : 0;
  return (
    <ol class="waves" aria-label="Waves">
      {waves.map(({ number, cities }) => (
        <li key={number} class={number === current ? "now" : ""}>
          <h2>Wave {number} <WaveState cities={cities} current={number === current} /></h2>
          <ul>
            {cities.map((each) => (
              <li key={`${each.city}/${each.order}`}>
                <Ring share={each.desired ? each.updated / each.desired : 0} severity={toneOf(each)} />
                <a href={link("instances", [], { city: each.city, workload: `${metadata.namespace}/${metadata.name}` })}>{cell(each.city)}</a>
                <span>{each.failed ? "failed" : each.reached ? `${each.updated} of ${each.desired}` : "old revision"}</span>
              </li>
            ))}
          </ul>
          {number === current && number < (rollout?.waves ?? 0) && <Timer cities={cities} wanted={spec.rollout?.minReadySeconds ?? USUAL_WINDOW} />}
        </li>
      ))}
    </ol>
  );
}

function WaveState({ cities, current }: { cities: readonly Placed[]; current: boolean }) {
  if (cities.some((each) => each.failed)) return <Pill severity="bad">failed</Pill>;
  if (current) return <Pill severity="busy">under way</Pill>;
  return cities.every((each) => each.reached) ? <Pill severity="ok">done</Pill> : <Pill severity="unknown">waits</Pill>;
}

/** How long the present wave has been ready, of the time after which the next one begins. */
function Timer({ cities, wanted }: { cities: readonly Placed[]; wanted: number }) {
  const found = observing(cities.map((each) => ({ complete: each.reached && each.updated >= each.desired, conditions: each.conditions })), wanted, now.value);
  if (!found) return <p class="timer">The timer starts when every city of the wave is ready.</p>;
  return (
    <p class="timer">
      <progress max={found.wanted} value={found.elapsed} aria-label="Ready, of the time before the next wave" />
      Ready for {lasting(found.elapsed)} of {lasting(found.wanted)}
    </p>
  );
}

interface Placed extends WaveCity {
  conditions: readonly Condition[];
}

function waveCity({ spec, status = {} }: Deployment, placements: { name: string; cityCodes?: string[] }[], newest: string | undefined, failed: string | undefined): Placed {
  const placement = placements.findIndex((each) => each.name === spec.placementName);
  const place = placements[placement]?.cityCodes?.indexOf(spec.cityCode) ?? -1;
  const reached = status.revision === newest;
  const { readyReplicas: ready = 0, updatedReplicas: updated = 0, desiredReplicas: desired = 0 } = status;
  return { city: spec.cityCode, order: placement * 10_000 + place, reached, ready, updated: reached ? Math.min(ready, updated) : 0, desired, failed: spec.cityCode === failed, conditions: status.conditions ?? [] };
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
  const observed = rollout.waves > 1 && rollout.wave < rollout.waves ? ` Each city stays ready for ${lasting(window)} before the next wave.` : "";
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

function Actions({ path, workload, urgent }: { path: string; workload: Workload; urgent: boolean }) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const [undoing, setUndoing] = useState(false);
  const { name, namespace } = workload.metadata;
  const may = useMay({ verb: "patch", group: "compute.datumapis.com", resource: "workloads", namespace, name });
  const paused = workload.spec.paused ?? false;
  const earlier = before(workload);
  const change = () => {
    const body = JSON.stringify({ spec: { paused: paused ? null : true } });
    text(`${path}?fieldManager=tarmac-dashboard-rollout`, { method: "PATCH", type: "application/merge-patch+json", body }).then(() => setFailure(null), (error: unknown) => setFailure(failureIn(error)));
  };
  return (
    <>
      {failure && <Refused failure={failure} />}
      <p class="actions">
        <button type="button" disabled={!may} onClick={change}>{paused ? "Resume" : "Pause"}</button>
        {earlier && <button type="button" class={urgent ? "primary" : ""} disabled={!may} onClick={() => setUndoing(true)}>Undo to revision {earlier.number}…</button>}
        {earlier && <a class="button" href={link("workloads", [namespace, name, "revisions"], { compare: String(earlier.number) })}>Show difference</a>}
        {!may && <span class="muted">You may not change workloads here.</span>}
      </p>
      {undoing && earlier && <Undo path={path} workload={workload} revision={earlier} closed={() => setUndoing(false)} />}
    </>
  );
}
