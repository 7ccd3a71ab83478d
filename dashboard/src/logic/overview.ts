// An instance in a few lines: its addresses, the policies about it, its volumes, resources and classes, as people say them.
import { isGpu } from "./load.ts";

type Texts = Record<string, string>;

interface Container {
  name?: string;
  image?: string;
  volumeAttachments?: { name: string; mountPath?: string }[];
}

export interface Volume {
  name: string;
  disk?: { template?: { spec?: { resources?: { requests?: Texts }; populator?: { image?: { name?: string }; filesystem?: { type?: string } } } } };
  configMap?: { name: string };
  secret?: { secretName: string };
  downwardAPI?: object;
  memory?: { sizeLimit?: string };
}

interface Interface {
  name?: string;
  network?: { name: string; namespace?: string };
  networkPolicy?: { ingress?: object[] };
}

export interface InstanceObject {
  metadata: { namespace: string; name: string; labels?: Texts; creationTimestamp?: string };
  spec: {
    runtime?: {
      resources?: { instanceType?: string; requests?: Texts };
      sandbox?: { containers?: Container[]; initContainers?: Container[] };
      virtualMachine?: Pick<Container, "volumeAttachments">;
    };
    networkInterfaces?: Interface[];
    volumes?: Volume[];
  };
  status?: {
    conditions?: { type: string; status: string; message?: string; lastTransitionTime?: string }[];
    networkInterfaces?: { name: string; addresses?: { address: string }[]; assignments?: { externalIP?: string } }[];
    nodeName?: string;
    restarts?: number;
    qosClass?: string;
    summary?: { status?: string };
  };
}

interface Resources {
  requests?: Texts;
  limits?: Texts;
  classes?: Texts;
}

export interface PodObject {
  metadata: { labels?: Texts; annotations?: Texts };
  spec: { resources?: Resources; containers: { name: string; resources?: Resources }[] };
  status?: { resources?: Resources; containerStatuses?: { name: string; resources?: Resources; allocatedResourcesStatus?: Allocated[] }[] };
}

/** Devices of one resource that a container has. */
interface Allocated {
  name: string;
  resources?: { resourceID: string; health?: string }[];
}

interface Requirement {
  key: string;
  operator: string;
  values?: string[];
}

interface Selector {
  matchLabels?: Texts;
  matchExpressions?: Requirement[];
}

export interface Policy {
  metadata: { namespace: string; name: string; uid: string };
  spec: { selector: Selector; network?: string; egress?: object[] };
}

/** An interface with the namespace and name of its network. */
export interface Attached {
  name: string;
  network: [namespace: string, name: string];
  addresses: string;
  /** How many rules of its own it has; null when it has none of its own at all. */
  rules: number | null;
}

export function attachedOf({ metadata, spec, status }: InstanceObject): Attached[] {
  return (spec.networkInterfaces ?? []).map((each, index) => {
    const name = each.name || `eth${index}`;
    const found = status?.networkInterfaces?.find((one) => one.name === name);
    const outside = found?.assignments?.externalIP;
    const addresses = (found?.addresses ?? []).map((one) => one.address).join(", ");
    return {
      name, network: [each.network?.namespace || metadata.namespace, each.network?.name ?? ""],
      addresses: `${addresses || "no address yet"}${outside ? `, seen outside as ${outside}` : ""}`,
      rules: each.networkPolicy ? (each.networkPolicy.ingress ?? []).length : null,
    };
  });
}

/** The policies that select these labels, by name. Policies of other namespaces select nothing here. */
export function selecting(policies: readonly Policy[], labels: Texts, attached: readonly Attached[]): Policy[] {
  const on = (each: Policy) => attached.some(({ network: [namespace, name] }) => namespace === each.metadata.namespace && name === each.spec.network);
  return policies
    .filter((each) => (!each.spec.network || on(each)) && selects(each.spec.selector, labels))
    .sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));
}

function selects({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Texts): boolean {
  return Object.entries(matchLabels).every(([key, value]) => labels[key] === value) && matchExpressions.every((each) => holds(each, labels));
}

function holds({ key, operator, values = [] }: Requirement, labels: Texts): boolean {
  const has = Object.hasOwn(labels, key); // an object answers to names such as constructor, which are no labels
  const among = has && values.includes(labels[key] ?? "");
  if (operator === "In") return among;
  if (operator === "NotIn") return !among;
  if (operator === "Exists") return has;
  return operator === "DoesNotExist" && !has;
}

/** A volume: its type, the object behind it as plural and name, and where it is attached. */
export interface Attachment {
  name: string;
  what: string;
  object: [plural: string, name: string] | null;
  where: string;
}

export function volumesOf({ metadata, spec }: InstanceObject): Attachment[] {
  const { sandbox, virtualMachine } = spec.runtime ?? {};
  const users = [...(sandbox?.initContainers ?? []), ...(sandbox?.containers ?? []), ...(virtualMachine ? [{ ...virtualMachine, name: "the machine" }] : [])];
  return (spec.volumes ?? []).map((volume) => ({
    name: volume.name, ...sourceOf(volume, metadata.name),
    where: users.flatMap((user) => (user.volumeAttachments ?? []).filter((each) => each.name === volume.name)
      .map((each) => `in ${user.name ?? ""} ${each.mountPath ? `at ${each.mountPath}` : "as a device"}`)).join(", "),
  }));
}

function sourceOf({ name, disk, configMap, secret, downwardAPI, memory }: Volume, instance: string): Pick<Attachment, "what" | "object"> {
  if (configMap) return { what: `ConfigMap ${configMap.name}`, object: ["configmaps", configMap.name] };
  if (secret) return { what: `Secret ${secret.secretName}`, object: ["secrets", secret.secretName] };
  if (downwardAPI) return { what: "files about itself", object: null };
  if (!disk) return { what: `in memory${memory?.sizeLimit ? `, at most ${memory.sizeLimit}` : ""}`, object: null };
  const { resources, populator } = disk.template?.spec ?? {};
  const parts = [resources?.requests?.["storage"], populator?.filesystem?.type, populator?.image && `from image ${populator.image.name ?? ""}`];
  return { what: ["disk", ...parts].filter(Boolean).join(" "), object: ["persistentvolumeclaims", `${instance}-${name}`] };
}

/** Its resources, and their shares by container. */
export function resourcesOf({ spec, status }: InstanceObject, pod: PodObject | null): string[] {
  const { instanceType = "", requests } = spec.runtime?.resources ?? {};
  const containers = (pod?.spec.containers ?? []).map((each) => `${each.name}: ${shareOf(each.resources) || "the remaining capacity"}`);
  const whole = shareOf(pod ? pod.spec.resources : requests && { requests });
  const all = [instanceType, whole && `together: ${whole}`, ...containers, status?.qosClass && `quality of service: ${status.qosClass}`];
  return all.filter((each): each is string => Boolean(each));
}

export function asksForGpus({ spec }: PodObject): boolean {
  return spec.containers.some(({ resources: { requests, limits } = {} }) => Object.keys({ ...requests, ...limits }).some(isGpu));
}

/** The devices that the containers of a Pod have, with their health. */
export function devicesOf(pod: PodObject | null): string[] {
  const allocated = (pod?.status?.containerStatuses ?? []).flatMap((each) => each.allocatedResourcesStatus ?? []);
  return allocated.flatMap(({ name, resources = [] }) => resources.map((each) => `${name} ${each.resourceID}: ${each.health ?? "Unknown"}`));
}

function shareOf({ requests, limits }: Resources = {}): string {
  const [asked, most] = [requests, limits].map((each) => Object.entries(each ?? {}).map(([name, amount]) => `${name} ${amount}`).sort().join(", "));
  return asked === most ? (asked ?? "") : [asked, most && `at most ${most}`].filter(Boolean).join("; ");
}

const FAMILY = /^(\w+)\.resources\.alpha\.kubernetes\.io\/(?:default|container\.(.+))$/;
const NOTED = "node.tarmac/classes";

/** The classes that are asked for, and those that its node says its containers are in. */
export function classesOf(pod: PodObject): string[] {
  const { metadata, spec } = pod;
  const stated = statedBy(pod);
  const asking = (who: string, classes: Texts = {}) => Object.entries(classes).map(([type, name]) => `${who} asks for ${type} ${name}`);
  const being = (who: string, classes: Texts = {}) => Object.entries(classes).map(([type, name]) => (name ? `${who} is in ${type} ${name}` : `${who} is in no class of ${type}`));
  return [...new Set([
    ...Object.entries(metadata.annotations ?? {}).flatMap(([key, name]) => {
      const [, type, container] = FAMILY.exec(key) ?? [];
      return type ? asking(container ?? "it", { [type]: name }) : [];
    }),
    ...asking("it", spec.resources?.classes), ...spec.containers.flatMap((each) => asking(each.name, each.resources?.classes)),
    ...being("it", stated.pod), ...Object.entries(stated.containers).flatMap(([name, classes]) => being(name, classes)),
  ])];
}

interface Stated {
  pod: Texts;
  containers: Record<string, Texts>;
}

/** The report of its node: in fields, else, where the server does not know those, in an annotation. One that makes no sense says nothing. */
function statedBy({ metadata, status }: PodObject): Stated {
  const fields = Object.fromEntries((status?.containerStatuses ?? []).map((each) => [each.name, each.resources?.classes ?? {}]));
  const pod = status?.resources?.classes;
  if (pod || Object.values(fields).some((each) => Object.keys(each).length)) return { pod: pod ?? {}, containers: fields };
  const noted = record(parsed(metadata.annotations?.[NOTED] ?? ""));
  return { pod: texts(noted["pod"]), containers: Object.fromEntries(Object.entries(record(noted["containers"])).map(([name, each]) => [name, texts(each)])) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function texts(value: unknown): Texts {
  return Object.fromEntries(Object.entries(record(value)).filter((each): each is [string, string] => typeof each[1] === "string"));
}

/** Requests and limits of a whole Pod, by resource, for the lines of its charts. */
export function boundsOf({ spec }: PodObject): Record<string, { request?: string; limit?: string }> {
  const all = spec.resources?.requests || spec.resources?.limits ? [spec.resources] : spec.containers.length === 1 ? [spec.containers[0]?.resources ?? {}] : [];
  const found: Record<string, { request?: string; limit?: string }> = {};
  for (const { requests = {}, limits = {} } of all) {
    for (const [name, request] of Object.entries(requests)) found[name] = { ...found[name], request };
    for (const [name, limit] of Object.entries(limits)) found[name] = { ...found[name], limit };
  }
  return found;
}
