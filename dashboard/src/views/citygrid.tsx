// A Workload's cities as cards, the most urgent first: ready of desired, revision, reason. Each leads to its instances.
import type { LiveList, Row } from "../api/listwatch.ts";
import { fraction } from "../logic/health.ts";
import { byName } from "../logic/ordered.ts";
import { link } from "../logic/routes.ts";
import { byUrgency, severityOf, textOf, type Severity } from "../logic/severity.ts";
import { cell, visible } from "../logic/text.ts";
import { Ring } from "../parts/ring.tsx";
import { Pill } from "../parts/severity.tsx";
import { Failed, Loading } from "../parts/states.tsx";
import { Failing } from "./failing.tsx";
import { MOVED_FROM } from "./paths.ts";
import type { Deployment, Workload } from "./workload.ts";

interface Props {
  namespace: string;
  name: string;
  list: LiveList | null;
  workload: Workload | null;
  deployments: readonly Deployment[];
}

export function CityGrid({ namespace, name, list, workload, deployments }: Props) {
  if (!list?.loaded.value) return list?.failure.value ? <Failed failure={list.failure.value} /> : <Loading />;
  const columns = list.columns.value;
  const rows = list.rows.value.map((row) => ({ row, severity: severityOf(row, columns) })).sort((a, b) => byUrgency(a.severity, b.severity) || byName(a.row, b.row));
  const failing = deployments.find((each) => each.status?.startFailure);
  if (rows.length === 0) return <p class="empty">No city takes it yet: see why.</p>;
  return (
    <section aria-label="Cities">
      <ul class="grid">
        {rows.map(({ row, severity }) => (
          <City key={row.uid} severity={severity} href={link("instances", [], { city: textOf(row, columns, "City"), workload: `${namespace}/${name}` })}
            city={cityOf(row, columns)} ready={textOf(row, columns, "Ready")} status={textOf(row, columns, "Status")} reason={textOf(row, columns, "Reason")}
            revision={revisionOf(row, columns, workload)} />
        ))}
      </ul>
      {failing?.status?.startFailure && <Failing namespace={namespace} failed={{ city: failing.spec.cityCode, ...failing.status.startFailure }} />}
    </section>
  );
}

/** A city, and the lost one that it stands in for. */
function cityOf(row: Row, columns: LiveList["columns"]["value"]): string {
  const from = row.labels[MOVED_FROM];
  return `${textOf(row, columns, "City")}${from ? ` for ${from}` : ""}`;
}

interface Card {
  href: string;
  city: string;
  ready: string;
  status: string;
  reason: string;
  revision: string;
  severity: Severity;
}

function City({ href, city, ready, status, reason, revision, severity }: Card) {
  const [now, wanted] = fraction(ready) ?? [0, 0];
  return (
    <li class="card">
      <p class="head"><Ring share={wanted ? now / wanted : 1} severity={severity} /> <a href={href}>{cell(city)}</a> {severity !== "ok" && <Pill severity={severity}>{status}</Pill>}</p>
      <p><strong>{cell(ready)}</strong> ready{revision && <span class="muted">, {visible(revision)}</span>}</p>
      {reason && severity !== "ok" && <p class="muted">{cell(reason)}</p>}
    </li>
  );
}

/** The number of the revision that a city has, and whether it is the newest one. */
function revisionOf(row: Row, columns: LiveList["columns"]["value"], workload: Workload | null): string {
  const hash = textOf(row, columns, "Revision");
  const revisions = workload?.status?.revisions ?? [];
  const found = revisions.find((each) => each.templateHash === hash);
  if (!found) return "";
  return found === revisions.at(-1) ? `revision ${found.number}` : `old revision ${found.number}`;
}
