// What happened to a workload: its revisions, its events and those of its cities, and warnings of its instances, the newest first.
import { age, cell, visible } from "../logic/text.ts";
import { timeline, type EventObject } from "../logic/timeline.ts";
import { useLoaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";
import { Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { spaced } from "./paths.ts";
import type { Parts } from "./workload.ts";

const EVERY = 5000;

export function TimeLine({ workload, deployments }: Parts) {
  const { uid, namespace, name } = workload.metadata;
  const own = useEvents(namespace, `involvedObject.uid=${uid}`);
  const cities = useEvents(namespace, "involvedObject.kind=WorkloadDeployment");
  const instances = useEvents(namespace, "involvedObject.kind=Instance,type=Warning");
  if (own.failure && !own.value) return <Failed failure={own.failure} again={own.again} />;
  if (!own.value) return <Loading />;
  const parts = new Set(deployments.map((each) => each.metadata.name));
  const ours = (of: string) => parts.has(of) || parts.has(of.replace(/-\d+$/, "")); // instances are numbered within their deployment
  const events = [...own.value.items, ...[...(cities.value?.items ?? []), ...(instances.value?.items ?? [])].filter((each) => ours(each.involvedObject.name ?? ""))];
  const moments = timeline(events, workload.status?.revisions ?? []);
  return (
    <section aria-label={`Time line of ${visible(name)}`}>
      {moments.length === 0 ? <p class="muted">Nothing has happened yet.</p> : (
        <Scrolls what="Time line"><table>
          <thead><tr>{["When", "What", "Reason", "Message"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>
            {moments.map((each) => (
              <tr key={each.key}>
                <td><time dateTime={each.time} title={each.time}>{age(each.time, now.value)}</time></td>
                <th scope="row">{cell(each.about)}</th>
                <td>{each.warning ? <Mark state="no">{cell(each.reason)}</Mark> : cell(each.reason)}</td>
                <td class="long">{cell(each.message)}</td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
    </section>
  );
}

function useEvents(namespace: string, selector: string) {
  return useLoaded<{ items: EventObject[] }>(`${spaced("/api/v1", "events", namespace)}?fieldSelector=${encodeURIComponent(selector)}`, EVERY);
}
