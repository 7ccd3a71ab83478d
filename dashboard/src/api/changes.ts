// Applies manifests: first as a dry run, then for real, with the field manager of this page.
import { missing, type Part } from "../logic/manifest.ts";
import type { Plan } from "../logic/plans.ts";
import { baseOf, kinds, type Kind } from "./discovery.ts";
import { Failure, failureIn, json } from "./requests.ts";
import { session } from "./session.ts";
import { named } from "../views/paths.ts";

const MANAGER = "fieldManager=tarmac-dashboard&fieldValidation=Strict";
const APPLY = "application/apply-patch+yaml";
const PLANNED = "compute.datumapis.com";

/** The reason of a Failure that is the page's own: without these fields there is no address to ask. */
export const UNADDRESSED = "Unaddressed";

export interface Target extends Part {
  path: string;
  plans: boolean;
}

/** An object that the server would take, and its plan if it is a Workload. */
export interface Previewed {
  target: Target;
  plan: Plan | null;
}

/** The failure of one object of several. */
export class PartFailure extends Error {
  constructor(readonly part: Part, readonly failure: Failure) {
    super(failure.message);
  }
}

export interface Stored {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  spec: object;
}

/** The API path of an object. Raises Failure if the manifest does not name one. */
async function targetOf(part: Part): Promise<Target> {
  const gap = missing(part);
  if (gap) throw unaddressed(gap);
  const [version = "", group = ""] = part.apiVersion.split("/").reverse();
  const kind = (await kinds()).find((each) => each.group === group && each.version === version && each.kind === part.kind);
  if (!kind) throw unaddressed(`kind: the server has no ${part.kind} in ${part.apiVersion}`);
  return { ...part, ...placeOf(kind, part), plans: group === PLANNED && kind.kind === "Workload" };
}

function unaddressed(said: string): Failure {
  const [field = "", message = ""] = /^([\w.]+): (.*)$/s.exec(said)?.slice(1) ?? [];
  return new Failure(400, said, UNADDRESSED, [{ field, message }]);
}

function placeOf(kind: Kind, part: Part): { namespace: string; path: string } {
  const namespace = kind.namespaced ? part.namespace || (session.value?.namespace ?? "default") : "";
  return { namespace, path: named(baseOf(kind), kind.plural, namespace, part.name) };
}

/** Apply every object as a dry run; for Workloads also return their plans. Raises PartFailure for the first that is refused. */
export async function preview(parts: readonly Part[], force: boolean): Promise<Previewed[]> {
  return await inTurn(parts, async (part) => {
    const target = await targetOf(part);
    const stored = await send(target, force, "&dryRun=All");
    // Plan the object that would be stored, not the manifest: fields of other field managers stay.
    return { target, plan: target.plans ? await plan(target.path, stored) : null };
  });
}

/** Apply objects in their order, since later ones may need earlier ones. Raises PartFailure; those before it are applied. */
export async function apply(targets: readonly Target[], force: boolean): Promise<void> {
  await inTurn(targets, (target) => send(target, force, ""));
}

async function inTurn<P extends Part, T>(parts: readonly P[], act: (part: P) => Promise<T>): Promise<T[]> {
  const done: T[] = [];
  for (const part of parts)
    done.push(await act(part).catch((error: unknown) => {
      throw new PartFailure(part, failureIn(error));
    }));
  return done;
}

/** The plan of a Workload. Raises Failure, also when the server would reject it. */
export async function plan(path: string, { apiVersion, kind, metadata, spec }: Stored): Promise<Plan> {
  const { name, namespace, labels, annotations } = metadata;
  const body = JSON.stringify({ apiVersion, kind, metadata: { name, namespace, labels, annotations }, spec });
  const found = await json<Plan>(`${path}/plan`, { method: "POST", type: "application/json", body });
  if (found.accepted) return found;
  throw new Failure(422, found.causes.map((each) => `${each.field}: ${each.message}`).join("; "), "Invalid", found.causes);
}

async function send(target: Target, force: boolean, more: string): Promise<Stored> {
  return await json<Stored>(`${target.path}?${MANAGER}${more}${force ? "&force=true" : ""}`, { method: "PATCH", type: APPLY, body: target.text });
}
