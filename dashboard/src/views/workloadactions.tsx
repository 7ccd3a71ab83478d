// Actions on a Workload: change, scale, undo, restart, delete. Deletion comes last.
import { useState } from "preact/hooks";
import { Failure, failureIn, json } from "../api/requests.ts";
import { scaled, scalesOf, type Scale } from "../logic/scales.ts";
import { link } from "../logic/routes.ts";
import { visible } from "../logic/text.ts";
import { announce } from "../state/announcing.ts";
import { replace, route } from "../state/navigation.ts";
import { useMay } from "../state/rights.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Delete } from "../parts/ending.tsx";
import { Failed } from "../parts/states.tsx";
import { before, Undo } from "./undo.tsx";
import type { Workload } from "./workload.ts";

const DIALOGS = ["scale", "undo", "restart"] as const;
type Asked = (typeof DIALOGS)[number];
const GROUP = "compute.datumapis.com";
const RESTARTED = "kubectl.kubernetes.io/restartedAt";

export function Actions({ path, namespace, name, workload }: { path: string; namespace: string; name: string; workload: Workload | null }) {
  const asked = DIALOGS.find((each) => each === route.value.query.get("do"));
  const ask = (what: Asked | "") => replace(link("workloads", route.peek().parts, what ? { do: what } : {})); // the address says which dialog is open: the palette leads there
  const may = useMay({ verb: "patch", group: GROUP, resource: "workloads", namespace, name });
  const earlier = workload && before(workload);
  const closed = () => ask("");
  return (
    <div class="actions">
      {may ? <a class="button" href={link("change", [namespace, name])}>Change it</a> : <span class="muted">You may not change workloads here.</span>}
      {may && workload && <>
        <button type="button" onClick={() => ask("scale")}>Scale…</button>
        <button type="button" onClick={() => ask("restart")}>Restart…</button>
        {earlier && <button type="button" onClick={() => ask("undo")}>Undo…</button>}
      </>}
      <Delete what={{ path, group: GROUP, plural: "workloads", namespace, name }} />
      {may && asked === "scale" && workload && <ScaleDialog path={path} workload={workload} closed={closed} />}
      {may && asked === "restart" && workload && <RestartDialog path={path} workload={workload} closed={closed} />}
      {may && asked === "undo" && workload && earlier && <Undo path={path} workload={workload} revision={earlier} closed={closed} />}
    </div>
  );
}

interface Dialogue {
  path: string;
  workload: Workload;
  closed: () => void;
}

/** Replaces the number of instances per city of each placement; fails if the placements have changed meanwhile. */
async function scale(path: string, scales: readonly Scale[]): Promise<void> {
  const patch = scaled(scales);
  await json(`${path}?fieldManager=tarmac-dashboard-scale`, { method: "PATCH", type: "application/json-patch+json", body: JSON.stringify(patch) });
}

function ScaleDialog({ path, workload, closed }: Dialogue) {
  const [scales, setScales] = useState(() => scalesOf(workload.spec.placements ?? []));
  const [failure, setFailure] = useState<Failure | null>(null);
  const { name } = workload.metadata;
  const act = async () => {
    try {
      await scale(path, scales);
      const back = scales.map((each) => ({ ...each, least: each.was ?? each.least, was: each.least }));
      announce(`${name} is being scaled.`, () => void scale(path, back).then(() => announce(`${name} is scaled back.`), (error: unknown) => announce(failureIn(error).message)));
      closed();
    } catch (error) {
      setFailure(failureIn(error));
    }
  };
  const set = (index: number, least: number) => setScales(scales.map((each, at) => (at === index ? { ...each, least } : each)));
  return (
    <Dialog title={`Scale ${visible(name)}`} closed={closed}>
      {failure && <Failed failure={failure} />}
      <form onSubmit={(event) => (event.preventDefault(), void act())}>
        {scales.map((each, index) => (
          <p key={each.name}><label>{visible(each.name)}: instances in each of {each.cities} {each.cities === 1 ? "city" : "cities"}{" "}
            <input type="number" min={0} max={10_000} required value={each.least} onInput={(event) => set(index, event.currentTarget.valueAsNumber)} /></label>
            {each.most !== undefined && <span class="muted"> at most {each.most} by autoscaling</span>}</p>
        ))}
        <p class="actions"><button type="submit" class="primary" disabled={scales.some((each) => !Number.isInteger(each.least))}>Scale</button><button type="button" onClick={closed}>Cancel</button></p>
      </form>
    </Dialog>
  );
}

/** Writes the time into the template, as `tarmac rollout restart` does: every instance is replaced, wave by wave. */
function RestartDialog({ path, workload, closed }: Dialogue) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const { name } = workload.metadata;
  const act = async () => {
    try {
      const body = JSON.stringify({ spec: { template: { metadata: { annotations: { [RESTARTED]: new Date().toISOString() } } } } });
      await json(`${path}?fieldManager=tarmac-dashboard-rollout`, { method: "PATCH", type: "application/merge-patch+json", body });
      announce(`${name} restarts, wave by wave.`);
      closed();
    } catch (error) {
      setFailure(failureIn(error));
    }
  };
  return (
    <Dialog title={`Restart ${visible(name)}`} closed={closed}>
      {failure && <Failed failure={failure} />}
      <p>Every instance is replaced, wave by wave, by one with the same image and settings.</p>
      <p class="actions"><button type="button" class="primary" onClick={() => void act()}>Restart</button><button type="button" onClick={closed}>Cancel</button></p>
    </Dialog>
  );
}
