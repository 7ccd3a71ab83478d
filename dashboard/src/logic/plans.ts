// A plan in words and marks: instances to create, replace, move and delete, by city.
import type { State } from "./health.ts";

export interface CityPlan {
  city: string;
  create: number;
  replace: number;
  delete: number;
  keep: number;
  moved: number;
  wave: number;
  refused: { reason: string; message: string; change: string; instances: number }[];
  endings: { node: string; pods: string[]; others: number }[];
}

export interface Plan {
  accepted: boolean;
  causes: { field: string; message: string }[];
  cities: CityPlan[];
}

/** The effect on a city at a glance. */
export function planned({ city, create, replace, moved, delete: ended, refused }: CityPlan): string {
  const parts = [create && `+${create}`, replace && `~${replace}`, moved && `→${moved}`, ended && `−${ended}`, refused.length && "✕"];
  return [city || "nowhere", ...(parts.some(Boolean) ? parts.filter(Boolean) : ["="])].join(" ");
}

/** The severity: refusals, deletions or replacements, or only additions. */
export function outlook(city: CityPlan): State {
  if (city.refused.length) return "no";
  return city.delete || city.replace || city.endings.length ? "wait" : "yes";
}

/** Deleted instances by city: of the Workload itself, and of other Workloads to make room. */
export function endings(plan: Plan): Map<string, number> {
  const ended = new Map<string, number>();
  for (const each of plan.cities) {
    const count = each.delete + each.endings.reduce((sum, one) => sum + one.pods.length + one.others, 0);
    if (count > 0) ended.set(each.city, (ended.get(each.city) ?? 0) + count);
  }
  return ended;
}

export function sentence(plan: Plan): string {
  const sum = (of: (each: CityPlan) => number) => plan.cities.reduce((all, each) => all + of(each), 0);
  const parts = [[sum((each) => each.create), "made"], [sum((each) => each.replace), "replaced"], [sum((each) => each.delete), "ended"], [sum((each) => each.keep), "kept"]] as const;
  const said = parts.filter(([count]) => count).map(([count, word]) => `${count} ${word}`);
  const refused = plan.cities.filter((each) => each.refused.length).length;
  return `${said.join(", ") || "Nothing changes"}${refused ? `; something cannot run in ${refused} of ${plan.cities.length} cities` : ""}.`;
}
