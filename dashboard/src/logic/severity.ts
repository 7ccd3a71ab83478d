// How urgent the state of an object is, from the columns that kubectl prints. Lists show the most urgent first.
import { fraction } from "./health.ts";

/** `bad`: nothing of it works. `warn`: part of it. `busy`: on its way. `ok`: nothing to do. */
export type Severity = "bad" | "warn" | "busy" | "ok" | "unknown";

const ORDER: Record<Severity, number> = { bad: 0, warn: 1, busy: 2, unknown: 3, ok: 4 };

export const TONES: Record<Severity, string> = { bad: "no", warn: "wait", busy: "info", ok: "yes", unknown: "unknown" };
/** A shape for each, since colour alone says nothing to many. */
export const SHAPES: Record<Severity, string> = { bad: "✕", warn: "◐", busy: "◌", ok: "●", unknown: "○" };

const OK = new Set(["Available", "Running", "Ready", "Bound", "Active", "Succeeded", "Completed", "Complete", "True", "NodesReady", "ProviderReady", "Programmed"]);
const BUSY = new Set([
  "Progressing", "Paused", "Stopped", "Deleting", "Terminating", "Starting", "Stopping", "ContainerCreating", "PodInitializing", "Pending",
  "PendingProgramming", "ProgrammingInProgress", "SchedulingGatesPresent", "ProvisioningNetwork", "ProvisioningInstances", "NewRevision", "Scaling",
  "WaitingForInstance", "NetworkContextNotReady", "SubnetNotReady", "NameBeingDeleted", "Preempting", "MachinePaused",
]);
const WARN = new Set(["Degraded", "SchedulingDisabled", "NotAllReady"]);

interface Cells {
  status?: string;
  reason?: string;
  ready?: string;
}

/** The severity of a state and its reason, with ready of desired where there is such a column. */
export function severity({ status = "", reason = "", ready = "" }: Cells): Severity {
  const words = status.split(",");
  if (words.some((each) => WARN.has(each))) return fraction(ready)?.[0] === 0 ? "bad" : "warn";
  if (words.every((each) => OK.has(each))) return "ok";
  if (BUSY.has(status)) return reason && !BUSY.has(reason) ? "bad" : "busy";
  if (status) return "bad";
  const parts = fraction(ready);
  if (!parts) return ready === "True" ? "ok" : ready === "False" ? "bad" : "unknown";
  return parts[0] >= parts[1] ? "ok" : parts[0] ? "warn" : "bad";
}

/** True if it needs attention. */
export function attention(found: Severity): boolean {
  return found === "bad" || found === "warn";
}

interface Row {
  cells: readonly unknown[];
}

interface Column {
  name: string;
}

/** The severity of a row of a table. */
export function severityOf(row: Row, columns: readonly Column[]): Severity {
  return severity({ status: textOf(row, columns, "Status"), reason: textOf(row, columns, "Reason"), ready: textOf(row, columns, "Ready") });
}

/** The text of a cell; empty without such a column. */
export function textOf(row: Row, columns: readonly Column[], name: string): string {
  const value = row.cells[columns.findIndex((each) => each.name === name)];
  return value === null || value === undefined ? "" : String(value);
}

/** Negative if the first is more urgent. */
export function byUrgency(a: Severity, b: Severity): number {
  return ORDER[a] - ORDER[b];
}

/** The most urgent of several; `ok` of none. */
export function mostUrgent(found: readonly Severity[]): Severity {
  return found.toSorted(byUrgency)[0] ?? "ok";
}
