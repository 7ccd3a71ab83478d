// The planet's capacity: what ready nodes may give to pods, and what nodes use.
import { amount } from "./ledger.ts";

export interface Capacity {
  resource: "cpu" | "memory";
  used: number;
  allocatable: number;
}

/** CPU and memory; null without Locations that name their capacity, or without measurements. */
export function capacityOf(allocatable: readonly Record<string, string>[], used: readonly Record<string, string>[]): Capacity[] | null {
  if (allocatable.length === 0 || used.length === 0) return null;
  const sum = (all: readonly Record<string, string>[], resource: string) => all.reduce((total, each) => total + (amount(each[resource]) || 0), 0);
  const found = (["cpu", "memory"] as const).map((resource) => ({ resource, used: sum(used, resource), allocatable: sum(allocatable, resource) }));
  return found.every((each) => each.allocatable > 0) ? found : null;
}

/** Such as `42 of 1,168`, in whole processors or gibibytes. */
export function capacityText({ resource, used, allocatable }: Capacity): string {
  const unit = resource === "memory" ? 2 ** 30 : 1;
  const whole = (value: number) => Math.round(value / unit).toLocaleString("en");
  return `${whole(used)} of ${whole(allocatable)}`;
}
