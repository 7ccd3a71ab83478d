// A history, the newest first, and the server's events in it.
import { age, cell, visible } from "../logic/text.ts";
import type { EventObject, Moment } from "../logic/timeline.ts";
import { useLoaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";
import { spaced } from "../views/paths.ts";
import { Mark, Scrolls } from "./states.tsx";

const EVERY = 5000;

export function Moments({ what, moments }: { what: string; moments: Moment[] }) {
  if (moments.length === 0) return <p class="muted">Nothing has happened in the last hour: the server keeps events no longer.</p>;
  return (
    <Scrolls what={what}><table>
      <thead><tr>{["When", "What", "Reason", "Message"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
      <tbody>
        {moments.map((each) => (
          <tr key={each.key}>
            <td><time dateTime={visible(each.time)} title={visible(each.time)}>{age(each.time, now.value)}</time></td>
            <th scope="row">{cell(each.about)}</th>
            <td>{each.warning ? <Mark state="no">{each.reason}</Mark> : cell(each.reason)}</td>
            <td class="long">{cell(each.message)}</td>
          </tr>
        ))}
      </tbody>
    </table></Scrolls>
  );
}

export function useEvents(namespace: string, selector: string) {
  return useLoaded<{ items: EventObject[] }>(`${spaced("/api/v1", "events", namespace)}?fieldSelector=${encodeURIComponent(selector)}`, EVERY);
}
