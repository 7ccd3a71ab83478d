// The load of a node: what is committed and used of a resource that Pods may request.
import { amount, type Account } from "./ledger.ts";
import { readable } from "./usage.ts";

export interface Load {
  resource: string;
  allocatable: number;
  committed: number;
  used: number;
}

const GPU = /^(?:nvidia\.com\/gpu|amd\.com\/gpu|(?:.+\/)?(?:nvidia|amd|intel)-.+)$/;

/** Null where the ledger has no such resource. */
export function loadOf(resources: readonly Account[], name: string): Load | null {
  const found = resources.find((each) => each.resource === name);
  const allocatable = amount(found?.allocatable);
  if (!found || Number.isNaN(allocatable)) return null;
  return { resource: name, allocatable, committed: amount(found.committed) || 0, used: amount(found.used) || 0 };
}

export function isGpu(resource: string): boolean {
  return GPU.test(resource);
}

/** All kinds of GPUs together; null without any. */
export function gpusOf(resources: readonly Account[]): Load | null {
  const found = resources.filter((each) => isGpu(each.resource)).flatMap((each) => loadOf(resources, each.resource) ?? []);
  if (found.length === 0) return null;
  const sum = (of: "allocatable" | "committed" | "used") => found.reduce((all, each) => all + each[of], 0);
  return { resource: "GPUs", allocatable: sum("allocatable"), committed: sum("committed"), used: sum("used") };
}

/** Such as `6.3 of 32`. */
export function loadText({ resource, allocatable, committed }: Load): string {
  return `${short(resource, committed)} of ${short(resource, allocatable)}`;
}

/** Such as `1.9 used`. */
export function usedText({ resource, used }: Load): string {
  return `${short(resource, used)} used`;
}

function short(resource: string, value: number): string {
  return resource === "memory" ? readable(resource, value) : String(Math.round(value * 10) / 10);
}
