// The head of an instance's page: its state with the reason, then where it is, of which Workload, and since when.
import { link } from "../logic/routes.ts";
import type { InstanceObject } from "../logic/overview.ts";
import { severity } from "../logic/severity.ts";
import { age, cell, visible } from "../logic/text.ts";
import { now } from "../state/navigation.ts";
import { Pill } from "../parts/severity.tsx";
import { CITY_LABEL, WORKLOAD_NAME } from "./paths.ts";

const MOST_IMAGES = 3;

export function InstanceHeader({ namespace, name, instance }: { namespace: string; name: string; instance: InstanceObject | null }) {
  const ready = instance?.status?.conditions?.find((each) => each.type === "Ready");
  const status = instance?.status?.summary?.status ?? "";
  const found = severity({ status, ready: ready?.status ?? "" });
  return (
    <>
      <div class="headline">
        <h1>{visible(`${namespace}/${name}`)}</h1>
        {status && <Pill severity={found}>{status}</Pill>}
      </div>
      {ready && ready.status !== "True" && ready.message && <p class="said">{visible(ready.message)}</p>}
      {instance && <Bits namespace={namespace} instance={instance} />}
    </>
  );
}

function Bits({ namespace, instance: { metadata, spec, status } }: { namespace: string; instance: InstanceObject }) {
  const { [CITY_LABEL]: city = "", [WORKLOAD_NAME]: workload = "" } = metadata.labels ?? {};
  const images = (spec.runtime?.sandbox?.containers ?? []).flatMap((each) => each.image ?? []).slice(0, MOST_IMAGES);
  return (
    <p class="bits">
      {workload && <span>of <a href={link("workloads", [namespace, workload])}>{cell(workload)}</a></span>}
      {city && <span>in <a href={link("planet", [], { city })}>{cell(city)}</a></span>}
      {status?.nodeName && <span>on <a href={link("nodes", [status.nodeName])}>{cell(status.nodeName)}</a></span>}
      {images.map((each) => <span key={each}><code>{cell(each)}</code></span>)}
      {metadata.creationTimestamp && <span>{age(metadata.creationTimestamp, now.value)} old</span>}
    </p>
  );
}
