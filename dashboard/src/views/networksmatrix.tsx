// The reachability matrix of a network's workloads. A small one is evaluated at once; a cell of a larger one when the user
// opens it. Opening a cell shows the rule that decides.
import { useEffect, useState } from "preact/hooks";
import { Failure, failureIn, json } from "../api/requests.ts";
import { MOST, members, type Member, type WorkloadSpec } from "../logic/matrix.ts";
import { queryOf, whyOf, type Question } from "../logic/reach.ts";
import { link } from "../logic/routes.ts";
import { cell, visible, word } from "../logic/text.ts";
import { Command, Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { useLoaded } from "../state/loaded.ts";
import { COMPUTE, WORKLOAD_NAME } from "./paths.ts";
import { Shown, stateOf, type Reach } from "./reach.tsx";

const AT_ONCE = 10; // workloads up to which every cell is evaluated without being opened
const PARALLEL = 3; // a browser has six connections to a host, and other requests need some

type Opened = { question: Question; reach: Reach } | { failure: Failure };

export function Matrix({ namespace, network, query }: { namespace: string; network: string; query: URLSearchParams }) {
  const base = `${COMPUTE}/namespaces/${encodeURIComponent(namespace)}`;
  const { value, failure, again } = useLoaded<{ items: WorkloadSpec[] }>(`${base}/workloads?limit=500`, 30_000);
  const [port, setPort] = useState("");
  const [opened, setOpened] = useState<Record<string, Opened>>({});
  const [last, setLast] = useState("");
  const filter = query.get("q") ?? "";
  const all = members(value?.items ?? [], namespace, network, filter);
  const shown = all.slice(0, MOST);
  const keep = (from: Member, to: Member, found: Opened) => setOpened((old) => ({ ...old, [keyOf(from, to)]: found }));
  useEffect(() => {
    if (shown.length > AT_ONCE) return;
    const abort = new AbortController();
    setOpened({});
    void askAll(base, namespace, shown, port, abort.signal, keep);
    return () => abort.abort();
  }, [base, shown.map((each) => each.name).join(), port]);
  if (!value) return failure ? <Failed failure={failure} again={again} /> : <Loading />;
  const open = async (from: Member, to: Member) => {
    setLast(keyOf(from, to));
    keep(from, to, await answered(base, namespace, from, to, port));
  };
  const narrow = (text: string) => location.replace(link("networks", [namespace, network, "matrix"], { q: text }));
  return (
    <>
      <p class="filter">
        <label>Filter <input type="search" data-filter value={filter} onInput={(event) => narrow(event.currentTarget.value)} /></label>{" "}
        <label>Port <input value={port} placeholder="what each declares" onInput={(event) => setPort(event.currentTarget.value.trim())} /></label>{" "}
        <span class="muted">{shown.length} of {all.length} workloads</span>
      </p>
      {shown.length === 0 ? (
        <p class="muted">{filter ? <>Nothing matches. <button type="button" onClick={() => narrow("")}>Clear the filter</button></> : "No workload is on this network yet. One joins it by networkInterfaces in its template."}</p>
      ) : (
        <Scrolls what="Who reaches whom"><table class="matrix">
          <thead><tr><th scope="col">From, to →</th>{shown.map((to) => <th scope="col" key={to.name}>{cell(to.name)}</th>)}</tr></thead>
          <tbody>
            {shown.map((from) => (
              <tr key={from.name}>
                <th scope="row">{cell(from.name)}</th>
                {shown.map((to) => <td key={to.name}><Cell from={from} to={to} found={opened[keyOf(from, to)]} open={open} /></td>)}
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
      <Details found={opened[last]} namespace={namespace} network={network} />
      <Command text={`tarmac why instance/NAME -n ${word(namespace)} --reach TARGET:PORT`} />
    </>
  );
}

function Cell({ from, to, found, open }: { from: Member; to: Member; found: Opened | undefined; open: (from: Member, to: Member) => Promise<void> }) {
  const answer = found && "reach" in found ? found.reach.answer : "";
  return (
    <button type="button" class={answer ? `answer ${stateOf(answer)}` : "answer"} aria-label={visible(`${from.name} to ${to.name}: ${answer || (found ? "not answered" : "ask")}`)} onClick={() => void open(from, to)}>
      {answer ? <Mark state={stateOf(answer)}>{answer}</Mark> : found ? "!" : to.port ? "?" : "no port"}
    </button>
  );
}

function Details({ found, namespace, network }: { found: Opened | undefined; namespace: string; network: string }) {
  if (!found) return <p class="muted">Open a cell to see the rule that decides. One instance of each workload is taken.</p>;
  if ("failure" in found) return <Failed failure={found.failure} />;
  return (
    <>
      <h2>{visible(`${found.question.from} to ${found.question.to}, port ${found.question.port}`)}</h2>
      <p><a href={link("networks", [namespace, network, "ask"], queryOf(found.question))}>This question as a link</a></p>
      <Shown reach={found.reach} />
    </>
  );
}

function keyOf(from: Member, to: Member): string {
  return `${from.name} ${to.name}`;
}

/** Evaluate every cell whose port is known, a few at a time. */
async function askAll(base: string, namespace: string, members: readonly Member[], port: string, signal: AbortSignal, keep: (from: Member, to: Member, found: Opened) => void): Promise<void> {
  const waiting = members.flatMap((from) => members.filter((to) => port || to.port).map((to) => [from, to] as const));
  const instances = new Map<string, Promise<string>>(); // one request for each workload, not for each cell
  const work = async () => {
    for (let next = waiting.shift(); next && !signal.aborted; next = waiting.shift()) {
      const found = await answered(base, namespace, ...next, port, instances);
      if (!signal.aborted) keep(...next, found);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
}

async function answered(base: string, namespace: string, from: Member, to: Member, port: string, instances = new Map<string, Promise<string>>()): Promise<Opened> {
  return asked(base, namespace, from, to, port, instances).catch((error: unknown) => ({ failure: failureIn(error) }));
}

/** The answer for one instance of each. Raises Failure. */
async function asked(base: string, namespace: string, from: Member, to: Member, port: string, instances: Map<string, Promise<string>>): Promise<Opened> {
  const chosen = port || to.port;
  if (!chosen) throw new Failure(400, `${to.name} declares no port: say which one.`);
  const one = (each: Member) => {
    const found = instances.get(each.name) ?? instanceOf(base, each);
    instances.set(each.name, found);
    return found;
  };
  const [sender, target] = await Promise.all([one(from), one(to)]);
  const question = { from: `${namespace}/${sender}`, to: `${namespace}/${target}`, port: chosen, protocol: to.protocol, both: false };
  return { question, reach: await json<Reach>(whyOf(question, COMPUTE)) };
}

async function instanceOf(base: string, workload: Member): Promise<string> {
  const select = new URLSearchParams({ labelSelector: `${WORKLOAD_NAME}=${workload.name}`, limit: "1" });
  const { items } = await json<{ items: { metadata: { name: string } }[] }>(`${base}/instances?${select}`);
  if (!items[0]) throw new Failure(404, `${workload.name} has no instance yet: see why under Workloads.`);
  return items[0].metadata.name;
}
