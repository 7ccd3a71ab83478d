// The head of a node's page: its state first, with the reason where it is bad, then the node in a few words.
import { useState } from "preact/hooks";
import { Failure, failureIn, json } from "../api/requests.ts";
import { link } from "../logic/routes.ts";
import { age, cell, visible } from "../logic/text.ts";
import { useLoaded } from "../state/loaded.ts";
import { announce } from "../state/announcing.ts";
import { now, replace, route } from "../state/navigation.ts";
import { useMay } from "../state/rights.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failed } from "../parts/states.tsx";
import { Pill } from "../parts/severity.tsx";
import { CITY } from "./paths.ts";

const EVERY = 15_000;

export interface NodeCondition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface NodeObject {
  metadata: { labels?: Record<string, string>; creationTimestamp?: string };
  spec?: { unschedulable?: boolean };
  status?: { conditions?: NodeCondition[]; nodeInfo?: { kubeletVersion?: string } };
}

const TRUE_IF_GOOD = new Set(["Ready", "TunnelsReachable", "MachinesReady", "GPUsSandboxable"]);

/** True if a condition is as it should be: Ready and its like are true, every pressure false. */
export function isGood({ type, status }: NodeCondition): boolean {
  return (status === "True") === TRUE_IF_GOOD.has(type) && status !== "Unknown";
}

export function NodeHeader({ path, name }: { path: string; name: string }) {
  const { value, again } = useLoaded<NodeObject>(path, EVERY);
  const bad = worst(value?.status?.conditions ?? []);
  const city = value?.metadata.labels?.[CITY];
  return (
    <>
      <div class="headline">
        <h1>{visible(name)}</h1>
        {value && (bad.length > 0 ? <Pill severity="bad">{wordOf(bad)}</Pill> : <Pill severity={value.spec?.unschedulable ? "warn" : "ok"}>{value.spec?.unschedulable ? "Cordoned" : "Ready"}</Pill>)}
        {value && <Cordon path={path} name={name} cordoned={value.spec?.unschedulable ?? false} again={again} />}
      </div>
      {bad.map((each) => (
        <p class="said" key={each.type}>{visible(`${each.type} is ${each.status}`)}{each.lastTransitionTime && ` for ${age(each.lastTransitionTime, now.value)}`}{visible(`: ${each.message || each.reason || "no reason is given"}`)}</p>
      ))}
      {value && (
        <p class="bits">
          {city && <span>in <a href={link("planet", [], { city })}>{cell(city)}</a></span>}
          <span>{cell(value.status?.nodeInfo?.kubeletVersion)}</span>
          {value.metadata.creationTimestamp && <span>{age(value.metadata.creationTimestamp, now.value)} old</span>}
        </p>
      )}
    </>
  );
}

/** The conditions to name: of a node that is lost only Ready, since it says nothing about the remaining ones. */
function worst(conditions: readonly NodeCondition[]): NodeCondition[] {
  const bad = conditions.filter((each) => !isGood(each));
  const lost = bad.filter((each) => each.type === "Ready" && each.status === "Unknown");
  return lost.length ? lost : bad;
}

function wordOf(bad: readonly NodeCondition[]): string {
  const ready = bad.find((each) => each.type === "Ready");
  return ready ? (ready.status === "Unknown" ? "Lost" : "Not ready") : (bad[0]?.type ?? "");
}

/** Cordon: no new pods are put on the node; those that run stay. */
function Cordon({ path, name, cordoned, again }: { path: string; name: string; cordoned: boolean; again: () => void }) {
  const asked = route.value.query.get("do") === "cordon" && !cordoned;
  const [failure, setFailure] = useState<Failure | null>(null);
  const may = useMay({ verb: "patch", group: "", resource: "nodes", namespace: "", name });
  const ask = (open: boolean) => replace(link("nodes", route.peek().parts, open ? { do: "cordon" } : {}));
  const set = async (wanted: boolean) => {
    try {
      const body = JSON.stringify({ spec: { unschedulable: wanted || null } });
      await json(`${path}?fieldManager=tarmac-dashboard`, { method: "PATCH", type: "application/merge-patch+json", body });
      announce(wanted ? `${name} takes no new pods.` : `${name} takes new pods again.`);
      if (wanted) ask(false);
      again();
    } catch (error) {
      setFailure(failureIn(error));
    }
  };
  return (
    <div class="actions">
      <button type="button" disabled={!may} onClick={() => (cordoned ? void set(false) : ask(true))}>{cordoned ? "Uncordon" : "Cordon…"}</button>
      {!may && <span class="muted">You may not change nodes.</span>}
      {may && asked && (
        <Dialog title={`Cordon ${visible(name)}`} closed={() => ask(false)}>
          {failure && <Failed failure={failure} />}
          <p>No new pods are put on it. The pods that run there stay.</p>
          <p class="actions"><button type="button" class="primary" onClick={() => void set(true)}>Cordon</button><button type="button" onClick={() => ask(false)}>Cancel</button></p>
        </Dialog>
      )}
    </div>
  );
}
