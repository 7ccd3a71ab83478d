// An instance at a glance: status, node, addresses, policies, volumes, resources and classes. Parts that the user may not read say so.
import type { ComponentChildren } from "preact";
import { gpuLine } from "../logic/gpus.ts";
import { asksForGpus, attachedOf, boundsOf, classesOf, devicesOf, resourcesOf, selecting, volumesOf, type Attached, type InstanceObject, type PodObject, type Policy } from "../logic/overview.ts";
import { link } from "../logic/routes.ts";
import { age, cell } from "../logic/text.ts";
import { Mark } from "../parts/states.tsx";
import { Usage } from "../parts/usage.tsx";
import { useGpus } from "../state/gpus.ts";
import { useList } from "../state/lists.ts";
import { useFollowed, useLoaded, type Loaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";
import { CITY_LABEL, METRICS, NETWORKING, named, spaced } from "./paths.ts";

export const EVERY = 5000; // as why is asked for

export function Overview({ instance }: { instance: InstanceObject }) {
  const { namespace, name } = instance.metadata;
  const pod = useLoaded<PodObject>(named("/api/v1", "pods", namespace, name), EVERY);
  const place = spaced(NETWORKING, "networkpolicies", namespace);
  const policies = useFollowed<{ items: Policy[] }>(place, useList(place));
  const attached = attachedOf(instance);
  const labels = (pod.value ?? instance).metadata.labels ?? {};
  const volumes = volumesOf(instance);
  const classes = pod.value && classesOf(pod.value);
  return (
    <section aria-label="Overview">
      <dl class="grid cards">
        <Card name="Status"><Status instance={instance} /></Card>
        <Card name="Node"><Node instance={instance} /></Card>
        <Card name="Addresses">{attached.map((each) => <dd key={each.name}>{cell(each.name)} on <a href={link("networks", each.network)}>{cell(each.network.join("/"))}</a>: {cell(each.addresses)}</dd>)}</Card>
        <Card name="Policies"><Policies found={policies} selected={selecting(policies.value?.items ?? [], labels, attached)} attached={attached} /></Card>
        <Card name="Volumes">
          {volumes.length === 0 && <Nothing>None.</Nothing>}
          {volumes.map(({ name: volume, what, object, where }) => (
            <dd key={volume}>{cell(volume)}: {object ? <a href={link("any", ["core", "v1", object[0], namespace, object[1]])}>{cell(what)}</a> : cell(what)} {cell(where)}</dd>
          ))}
        </Card>
        <Card name="Resources">{resourcesOf(instance, pod.value).map((each, index) => <dd key={index}>{cell(each)}</dd>)}<Gpus instance={instance} pod={pod.value} /></Card>
        <Card name="Classes">
          {classes ? classes.map((each, index) => <dd key={index}>{cell(each)}</dd>) : <Unknown of={pod} what="its Pod" />}
          {classes?.length === 0 && <Nothing>None is asked for.</Nothing>}
        </Card>
      </dl>
      <Usage path={named(METRICS, "pods", namespace, name)} bounds={pod.value ? boundsOf(pod.value) : {}} />
    </section>
  );
}

function Card({ name, children }: { name: string; children: ComponentChildren }) {
  return <div class="card"><dt>{name}</dt>{children}</div>;
}

function Status({ instance: { status } }: { instance: InstanceObject }) {
  const ready = status?.conditions?.find((each) => each.type === "Ready");
  const state = ready?.status === "True" ? "yes" : ready?.status === "False" ? "no" : "unknown";
  const restarts = status?.restarts ?? 0;
  return (
    <>
      <dd>
        <Mark state={state}>{status?.summary?.status ?? "Unknown"}</Mark>
        {ready?.lastTransitionTime && cell(` for ${age(ready.lastTransitionTime, now.value)}`)}
        {restarts > 0 && cell(`, restarted ${restarts === 1 ? "once" : `${restarts} times`}`)}
      </dd>
      {state !== "yes" && ready?.message && <dd>{cell(ready.message)}</dd>}
    </>
  );
}

function Node({ instance: { metadata, status } }: { instance: InstanceObject }) {
  const city = metadata.labels?.[CITY_LABEL];
  const place = city ? ` in ${city}` : "";
  return <dd>{status?.nodeName ? <a href={link("nodes", [status.nodeName])}>{cell(status.nodeName)}</a> : "none yet"}{cell(place)}</dd>;
}

function Policies({ found, selected, attached }: { found: Loaded<object>; selected: Policy[]; attached: Attached[] }) {
  const own = attached.filter((each) => each.rules !== null);
  return (
    <>
      {!found.value && <Unknown of={found} what="policies" />}
      {selected.map(({ metadata: { uid, namespace, name }, spec }) => (
        <dd key={uid}><a href={link("any", [...NETWORKING.split("/").slice(2), "networkpolicies", namespace, name])}>{cell(name)}</a> limits what comes in{spec.egress && " and what goes out"}{spec.network && cell(` on ${spec.network}`)}</dd>
      ))}
      {own.map((each) => <dd key={each.name}>{cell(each.name)}: a networkPolicy of its own limits what comes in, with {each.rules} {each.rules === 1 ? "rule" : "rules"}</dd>)}
      {found.value && selected.length + own.length === 0 && <Nothing>None selects it: every instance on its networks reaches it.</Nothing>}
    </>
  );
}

/** The GPUs that it has, by the metrics of its node, or by its Pod where those may not be read. */
function Gpus({ instance: { metadata, status }, pod }: { instance: InstanceObject; pod: PodObject | null }) {
  const { gpus } = useGpus(pod && asksForGpus(pod) ? (status?.nodeName ?? "") : "");
  const own = (gpus ?? []).filter((each) => each.namespace === metadata.namespace && each.pod === metadata.name);
  const lines = own.length > 0 ? own.map(gpuLine) : devicesOf(pod);
  return <>{lines.map((each) => <dd key={each}>{cell(each)}</dd>)}</>;
}

function Nothing({ children }: { children: ComponentChildren }) {
  return <dd class="muted">{children}</dd>;
}

/** The reason a value is unknown; empty while it is being loaded. */
function Unknown({ of: { failure }, what }: { of: Loaded<object>; what: string }) {
  if (!failure) return <Nothing>…</Nothing>;
  return <Nothing>{failure.code === 403 ? `You don't have permission to see ${what}:` : "Not known:"} {cell(failure.message)}</Nothing>;
}
