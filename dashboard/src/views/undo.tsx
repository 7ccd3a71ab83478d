// Undo of a rollout: the plan of going back first, then the whole template of an earlier revision, as `tarmac rollout undo`
// writes it. An apply would leave fields that the revision lacks and that other field managers own.
import { useEffect, useState } from "preact/hooks";
import { plan } from "../api/changes.ts";
import { Failure, failureIn, json } from "../api/requests.ts";
import { mustBeTyped } from "../logic/ending.ts";
import { endings, type Plan } from "../logic/plans.ts";
import type { Revision } from "../logic/timeline.ts";
import { announce } from "../state/announcing.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Confirm, WhatEnds } from "../parts/ending.tsx";
import { PlanShown } from "../parts/plan.tsx";
import { Failed, Loading } from "../parts/states.tsx";
import { named } from "./paths.ts";
import type { Workload } from "./workload.ts";

export interface ControllerRevision {
  data: { spec: { template: unknown } };
}

/** Where the template of a revision is kept. */
export function templateOf({ metadata }: Workload, revision: Revision): string {
  return named("/apis/apps/v1", "controllerrevisions", metadata.namespace, revision.template);
}

/** The revision before the present one; null if there is none. */
export function before({ status }: Workload): Revision | null {
  return status?.revisions?.at(-2) ?? null;
}

interface Undone {
  path: string;
  workload: Workload;
  revision: Revision;
  closed: () => void;
}

export function Undo({ path, workload, revision, closed }: Undone) {
  const [found, setFound] = useState<{ plan: Plan; template: unknown } | Failure | null>(null);
  const { name, generation } = workload.metadata;
  useEffect(() => {
    const look = async () => {
      const { template } = (await json<ControllerRevision>(templateOf(workload, revision))).data.spec;
      return { template, plan: await plan(path, { ...workload, spec: { ...workload.spec, template } as Workload["spec"] }) };
    };
    look().then(setFound, (error: unknown) => setFound(failureIn(error)));
  }, []);
  const undo = async (template: unknown) => {
    // Only if the spec is unchanged since the plan was shown; the status may have changed.
    const patch = [{ op: "test", path: "/metadata/generation", value: generation }, { op: "replace", path: "/spec/template", value: template }];
    try {
      await json(`${path}?fieldManager=tarmac-dashboard-rollout`, { method: "PATCH", type: "application/json-patch+json", body: JSON.stringify(patch) });
      announce(`${name} goes back to revision ${revision.number}.`);
      closed();
    } catch (error) {
      setFound(failureIn(error));
    }
  };
  const ends = found && !(found instanceof Failure) ? [...endings(found.plan)] : [];
  const ended = ends.reduce((sum, [, count]) => sum + count, 0);
  return (
    <Dialog title={`Undo to revision ${revision.number}`} closed={closed}>
      {found === null && <Loading />}
      {found instanceof Failure && <Failed failure={found} />}
      {found && !(found instanceof Failure) && <>
        <PlanShown plan={found.plan} />
        {ended > 0 && <WhatEnds ends={{ cities: ends, kinds: [], instances: ended }} />}
        <Confirm name={name} verb="Undo" typed={mustBeTyped(ended)} act={() => void undo(found.template)} />
      </>}
      <button type="button" onClick={closed}>Cancel</button>
    </Dialog>
  );
}
