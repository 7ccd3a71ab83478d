// The explanation of an object's state: the sentence, the verdicts behind it, and the smallest change that would help.
import { useLoaded } from "../state/loaded.ts";
import { cell, visible } from "../logic/text.ts";
import { Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import type { State } from "../logic/health.ts";

interface Line {
  answer: string;
  reason: string;
  message: string;
  rule: string;
  city: string;
  node: string;
  change: string;
}

interface Explanation {
  sentence: string;
  verdicts: Line[];
  change: string;
}

const STATES: Record<string, State> = { Yes: "yes", Wait: "wait", No: "no" };

export function Why({ path }: { path: string }) {
  const { value, failure, again } = useLoaded<Explanation>(`${path}/why`, 5000);
  if (!value) return failure ? <Failed failure={failure} again={again} /> : <Loading />;
  return (
    <section aria-label="Why">
      <p>{visible(value.sentence)}</p>
      {value.change && <p class="change"><strong>What would help:</strong> {visible(value.change)}</p>}
      {value.verdicts.length > 0 && (
        <Scrolls what="Answers"><table>
          <thead><tr><th scope="col">Answer</th><th scope="col">City</th><th scope="col">Node</th><th scope="col">Reason</th><th scope="col">Details</th></tr></thead>
          <tbody>
            {value.verdicts.map((each, index) => (
              <tr key={index}>
                <td><Mark state={STATES[each.answer] ?? "unknown"}>{each.answer}</Mark></td>
                <td>{cell(each.city)}</td>
                <td>{cell(each.node)}</td>
                <td>{cell(each.reason)}</td>
                <td class="long">{visible(each.message)}{each.change && <> <em>{visible(each.change)}</em></>}</td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
    </section>
  );
}
