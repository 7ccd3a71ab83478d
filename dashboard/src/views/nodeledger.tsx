// A node's conditions, bad ones first; its ledger: for each resource a bar from its capacity to its usage, the same as a
// table; its GPUs, its classes, and its usage.
import { barOf, sentence, type Account, type Bar } from "../logic/ledger.ts";
import { age, cell, visible } from "../logic/text.ts";
import { Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { Usage } from "../parts/usage.tsx";
import { useLoaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";
import { NodeGpus } from "./nodegpus.tsx";
import { isGood, type NodeObject } from "./nodeheader.tsx";
import { METRICS, named } from "./paths.ts";

const EVERY = 15_000;
const WIDTH = 600;
const LEGEND = { committed: "committed", exclusive: "exclusive", used: "used", reserved: "reserved", oversubscribed: "oversubscribed" } as const;

interface Ledger {
  city: string;
  pressure: string[];
  resources: Account[];
  classes: { type: string; class: string; level: string; capacity?: number; used?: number }[];
}

export function NodeLedger({ name }: { name: string }) {
  const path = named("/api/v1", "nodes", "", name);
  const { value, failure, again } = useLoaded<Ledger>(`${path}/ledger`, EVERY);
  return (
    <>
      <Conditions path={path} />
      {failure && !value && <Failed failure={failure} again={again} />}
      {!failure && !value && <Loading />}
      {value && <h2>Resources</h2>}
      {value && <Resources resources={value.resources} />}
      {value && <NodeGpus node={name} resources={value.resources} />}
      {value && value.classes.length > 0 && <Classes classes={value.classes} />}
      <Usage path={named(METRICS, "nodes", "", name)} />
    </>
  );
}

function Resources({ resources }: { resources: Account[] }) {
  const bars = resources.map((each) => ({ account: each, bar: barOf(each) }));
  const names = Object.keys(LEGEND) as (keyof typeof LEGEND)[];
  return (
    <section aria-label="Ledger">
      <p class="legend" aria-hidden="true">{names.map((each) => <span key={each}><svg viewBox="0 0 16 12"><rect class={each} x="0" y={each === "used" ? 4 : 0} width="16" height={each === "used" ? 4 : 12} /></svg> {LEGEND[each]}</span>)} <span>┆ allocatable</span></p>
      {bars.map(({ account, bar }) => bar && (
        <figure class="ledger" key={account.resource}>
          <figcaption>{visible(sentence(account))}</figcaption>
          <Drawn bar={bar} label={visible(sentence(account))} />
        </figure>
      ))}
      <Scrolls what="Ledger as a table"><table>
        <thead><tr>{["Resource", "Capacity", "Reserved", "Oversubscribed", "Allocatable", "Exclusive", "Committed", "Used"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
        <tbody>
          {resources.map((each) => (
            <tr key={each.resource}>
              <th scope="row">{cell(each.resource)}</th><td>{cell(each.capacity ?? "-")}</td>
              <td>{cell(each.reserved.map((held) => `${held.amount} for ${held.for}${held.source ? ` (${held.source})` : ""}`).join(", ") || "-")}</td>
              <td>{cell(each.oversubscription ?? "-")}</td><td>{cell(each.allocatable ?? "-")}</td>
              <td>{cell(each.exclusive ? `${each.exclusive.committed ?? "?"} of ${each.exclusive.capacity}` : "-")}</td>
              <td>{cell(each.committed ?? "-")}</td><td>{cell(each.used ?? "-")}</td>
            </tr>
          ))}
        </tbody>
      </table></Scrolls>
    </section>
  );
}

function Drawn({ bar, label }: { bar: Bar; label: string }) {
  const at = (value: number) => (value / bar.scale) * WIDTH;
  return (
    <svg viewBox={`0 0 ${WIDTH} 24`} role="img" aria-label={label} preserveAspectRatio="none">
      <rect class="physical" x="0" y="0" width={at(bar.capacity)} height="24" />
      {bar.segments.map(({ name, from, to }) => (
        <rect key={name} class={name} x={at(from)} y={name === "used" ? 8 : 0} width={Math.max(1, at(to) - at(from))} height={name === "used" ? 8 : 24} />
      ))}
      <line x1={at(bar.allocatable)} x2={at(bar.allocatable)} y1="0" y2="24" />
    </svg>
  );
}

function Classes({ classes }: { classes: Ledger["classes"] }) {
  return (
    <Scrolls what="Classes"><table>
      <thead><tr>{["Class", "Of", "For a", "Used"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
      <tbody>{classes.map((each) => <tr key={`${each.type} ${each.class}`}><th scope="row">{cell(each.class)}</th><td>{cell(each.type)}</td><td>{cell(each.level)}</td><td>{cell(`${each.used ?? "?"}${each.capacity === undefined ? "" : ` of ${each.capacity}`}`)}</td></tr>)}</tbody>
    </table></Scrolls>
  );
}

function Conditions({ path }: { path: string }) {
  const { value, failure } = useLoaded<NodeObject>(path, EVERY);
  if (!value) return failure ? <Failed failure={failure} /> : <Loading />;
  const conditions = (value.status?.conditions ?? []).toSorted((a, b) => Number(isGood(a)) - Number(isGood(b)));
  return (
    <section aria-label="Conditions">
      <h2>Conditions</h2>
      {value.spec?.unschedulable && <p class="stale">It takes no new pods: it is cordoned.</p>}
      <Scrolls what="Conditions"><table>
        <thead><tr>{["Condition", "Status", "Reason", "Details", "Since"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
        <tbody>
          {conditions.map((each) => (
            <tr key={each.type}>
              <th scope="row">{cell(each.type)}</th>
              <td><Mark state={each.status === "Unknown" ? "unknown" : isGood(each) ? "yes" : "no"}>{each.status}</Mark></td>
              <td>{cell(each.reason)}</td><td class="long">{visible(each.message ?? "")}</td><td title={cell(each.lastTransitionTime)}>{each.lastTransitionTime ? age(each.lastTransitionTime, now.value) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table></Scrolls>
    </section>
  );
}
