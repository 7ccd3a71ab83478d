// Everything that happened to a workload on one axis, the newest first: its revisions, and events of it and its parts.

export interface EventObject {
  metadata: { uid: string; creationTimestamp?: string };
  involvedObject: { kind?: string; name?: string; uid?: string };
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  eventTime?: string | null;
  lastTimestamp?: string | null;
  series?: { count?: number; lastObservedTime?: string };
}

export interface Revision {
  number: number;
  templateHash: string;
  created: string;
  template: string;
  completed?: string;
}

export interface Moment {
  key: string;
  time: string;
  about: string;
  reason: string;
  message: string;
  warning: boolean;
}

export function timeline(events: readonly EventObject[], revisions: readonly Revision[]): Moment[] {
  const moments = [...events.map(ofEvent), ...revisions.flatMap(ofRevision)];
  return moments.sort((a, b) => b.time.localeCompare(a.time) || b.key.localeCompare(a.key));
}

function ofEvent(event: EventObject): Moment {
  const count = event.series?.count ?? event.count ?? 1;
  return {
    key: event.metadata.uid,
    time: event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "",
    about: `${event.involvedObject.kind ?? ""} ${event.involvedObject.name ?? ""}`.trim(),
    reason: event.reason ?? "", message: `${event.message ?? ""}${count > 1 ? ` (${count} times)` : ""}`, warning: event.type === "Warning",
  };
}

function ofRevision({ number, created, completed, templateHash }: Revision): Moment[] {
  const about = `Revision ${number}`;
  const begun = { key: `r${number}`, time: created, about, reason: "Begun", message: `Rollout of template ${templateHash} started.`, warning: false };
  return completed ? [begun, { key: `r${number}c`, time: completed, about, reason: "Complete", message: "Rollout complete: every instance is updated and ready.", warning: false }] : [begun];
}
