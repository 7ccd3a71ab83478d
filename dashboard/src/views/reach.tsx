// The reachability question and its answer: Yes or No for each direction, the rule that decides, and the change that would help.
import { useEffect, useState } from "preact/hooks";
import type { State } from "../logic/health.ts";
import { PROTOCOLS, commandOf, missing, whyOf, type Question } from "../logic/reach.ts";
import { cell, visible } from "../logic/text.ts";
import { Command, Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { useLoaded } from "../state/loaded.ts";
import { COMPUTE } from "./paths.ts";

interface Line {
  answer: string;
  reason: string;
  message: string;
  rule: string;
  node: string;
  change: string;
}

interface Path {
  network: string;
  source: string;
  target: string;
  seenAs: string;
  answer: string;
  lines: Line[];
}

export interface Reach {
  answer: string;
  sentence: string;
  change: string;
  paths: Path[];
  reverse?: Reach | null;
}

const STATES: Record<string, State> = { Yes: "yes", No: "no", Wait: "wait", Some: "wait" };

export const stateOf = (answer: string): State => STATES[answer] ?? "unknown";

/** A form that changes only the link, and the answer to the question in the link. */
export function Ask({ question, onAsk }: { question: Question; onAsk: (question: Question) => void }) {
  const path = whyOf(question, COMPUTE);
  return (
    <>
      <Form question={question} onAsk={onAsk} />
      {path ? <Answered key={path} path={path} /> : <p class="muted">{missing(question)}</p>}
      <Command text={commandOf(question)} />
    </>
  );
}

function Form({ question, onAsk }: { question: Question; onAsk: (question: Question) => void }) {
  const [draft, setDraft] = useState(question);
  const key = JSON.stringify(question);
  useEffect(() => setDraft(question), [key]);
  const field = (name: "from" | "to" | "port", label: string, hint: string) => (
    <label>{label} <input value={draft[name]} placeholder={hint} spellcheck={false} autocomplete="off"
      onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value.trim() })} /></label>
  );
  return (
    <form class="ask" aria-label="Does A reach B?" onSubmit={(event) => { event.preventDefault(); onAsk(draft); }}>
      {field("from", "From", "NAMESPACE/NAME")}
      {field("to", "To", "NAME, service/…, address")}
      {field("port", "Port", "443 or http")}
      <label>Protocol <select value={draft.protocol} onChange={(event) => setDraft({ ...draft, protocol: event.currentTarget.value })}>
        {PROTOCOLS.map((each) => <option key={each}>{each}</option>)}
      </select></label>
      <label><input type="checkbox" checked={draft.both} onChange={(event) => setDraft({ ...draft, both: event.currentTarget.checked })} /> and back</label>
      <button type="submit" class="primary">Ask</button>
    </form>
  );
}

function Answered({ path }: { path: string }) {
  const { value, failure, again } = useLoaded<Reach>(path);
  if (failure) return <Failed failure={failure} again={again} />;
  if (!value) return <Loading />;
  return <Shown reach={value} again={again} />;
}

export function Shown({ reach, again }: { reach: Reach; again?: () => void }) {
  return (
    <section aria-label="Answer" aria-live="polite">
      <OneWay reach={reach} {...(again ? { again } : {})} />
      {reach.reverse && <><h2>And back</h2><OneWay reach={reach.reverse} /></>}
    </section>
  );
}

function OneWay({ reach, again }: { reach: Reach; again?: () => void }) {
  return (
    <>
      <p><Mark state={stateOf(reach.answer)}>{reach.answer}</Mark> {visible(reach.sentence)} {again && <button type="button" onClick={again}>Ask again</button>}</p>
      {reach.change && <p class="change"><strong>To change it:</strong> {visible(reach.change)}</p>}
      {reach.paths.map((each, index) => <Way key={index} path={each} />)}
    </>
  );
}

function Way({ path }: { path: Path }) {
  const way = path.source ? `${path.source} → ${path.target}${path.network && ` on ${path.network}`}` : "No way yet";
  return (
    <>
      <h2><Mark state={stateOf(path.answer)}>{path.answer}</Mark> {visible(way)}{path.seenAs && visible(`, seen as ${path.seenAs}`)}</h2>
      <Scrolls what={visible(way)}><table>
        <thead><tr>{["Rule", "Answer", "Reason", "Details"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
        <tbody>
          {path.lines.map((each, index) => (
            <tr key={index}>
              <th scope="row">{cell(each.rule)}</th>
              <td><Mark state={stateOf(each.answer)}>{each.answer}</Mark></td>
              <td>{cell(each.reason)}</td>
              <td class="long">{visible(each.message)}{each.change && <> <em>{visible(each.change)}</em></>}</td>
            </tr>
          ))}
        </tbody>
      </table></Scrolls>
    </>
  );
}
