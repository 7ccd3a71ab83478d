// Applies manifests: first as a dry run, then for real, with the field manager of this page.
import { identity, type Identity } from "../logic/manifest.ts";
import type { Plan } from "../logic/plans.ts";
import { baseOf, kinds, type Kind } from "./discovery.ts";
import { Failure, json } from "./requests.ts";
import { session } from "./session.ts";
import { named } from "../views/paths.ts";

const MANAGER = "fieldManager=tarmac-dashboard&fieldValidation=Strict";
const APPLY = "application/apply-patch+yaml";
const PLANNED = "compute.datumapis.com";

export interface Target extends Identity {
  path: string;
  plans: boolean;
}

export interface Stored {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  spec: object;
}

/** The API path of a manifest. Raises Failure if the manifest is wrong. */
export async function targetOf(yaml: string): Promise<Target> {
  const about = identity(yaml);
  if (typeof about === "string") throw new Failure(400, about, "", [causeIn(about)]);
  const [version = "", group = ""] = about.apiVersion.split("/").reverse();
  const kind = (await kinds()).find((each) => each.group === group && each.version === version && each.kind === about.kind);
  if (!kind) throw new Failure(400, `the server has no ${about.kind} in ${about.apiVersion}`, "", [{ field: "kind", message: `the server has no ${about.kind} in ${about.apiVersion}` }]);
  return { ...about, ...placeOf(kind, about), plans: group === PLANNED && kind.kind === "Workload" };
}

function causeIn(said: string): { field: string; message: string } {
  const [field = "", message = ""] = /^([\w.]+): (.*)$/.exec(said)?.slice(1) ?? [];
  return { field, message };
}

function placeOf(kind: Kind, about: Identity): { namespace: string; path: string } {
  const namespace = kind.namespaced ? about.namespace || (session.value?.namespace ?? "default") : "";
  return { namespace, path: named(baseOf(kind), kind.plural, namespace, about.name) };
}

/** Apply a manifest as a dry run; for a Workload also return its plan. Raises Failure. */
export async function preview(target: Target, yaml: string, force: boolean): Promise<Plan | null> {
  const stored = await send(target, yaml, force, "&dryRun=All");
  // Plan the object that would be stored, not the manifest: fields of other field managers stay.
  return target.plans ? await plan(target.path, stored) : null;
}

export async function apply(target: Target, yaml: string, force: boolean): Promise<void> {
  await send(target, yaml, force, "");
}

/** The plan of a Workload. Raises Failure, also when the server would reject it. */
export async function plan(path: string, { apiVersion, kind, metadata, spec }: Stored): Promise<Plan> {
  const { name, namespace, labels, annotations } = metadata;
  const body = JSON.stringify({ apiVersion, kind, metadata: { name, namespace, labels, annotations }, spec });
  const found = await json<Plan>(`${path}/plan`, { method: "POST", type: "application/json", body });
  if (found.accepted) return found;
  throw new Failure(422, found.causes.map((each) => `${each.field}: ${each.message}`).join("; "), "Invalid", found.causes);
}

async function send(target: Target, yaml: string, force: boolean, more: string): Promise<Stored> {
  return await json<Stored>(`${target.path}?${MANAGER}${more}${force ? "&force=true" : ""}`, { method: "PATCH", type: APPLY, body: yaml });
}
