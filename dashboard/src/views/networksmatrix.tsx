// The reachability matrix of a network's workloads. A cell is evaluated when the user opens it.
import { useState } from "preact/hooks";
import { Failure, json } from "../api/requests.ts";
import { MOST, members, type Member, type WorkloadSpec } from "../logic/matrix.ts";
import { queryOf, whyOf, type Question } from "../logic/reach.ts";
import { link } from "../logic/routes.ts";
import { cell, visible, word } from "../logic/text.ts";
import { Command, Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { useLoaded } from "../state/loaded.ts";
import { COMPUTE, WORKLOAD_NAME } from "./paths.ts";
import { Shown, stateOf, type Reach } from "./reach.tsx";

type Opened = { question: Question; reach: Reach } | { failure: Failure };

export function Matrix({ namespace, network, query }: { namespace: string; network: string; query: URLSearchParams }) {
  const base = `${COMPUTE}/namespaces/${encodeURIComponent(namespace)}`;
  const { value, failure, again } = useLoaded<{ items: WorkloadSpec[] }>(`${base}/workloads?limit=500`, 30_000);
  const [port, setPort] = useState("");
  const [opened, setOpened] = useState<Record<string, Opened>>({});
  const [last, setLast] = useState("");
  if (!value) return failure ? <Failed failure={failure} again={again} /> : <Loading />;
  const filter = query.get("q") ?? "";
  const all = members(value.items, namespace, network, filter);
  const shown = all.slice(0, MOST);
  const open = async (from: Member, to: Member) => {
    const key = `${from.name} ${to.name}`;
    const found = await asked(base, namespace, from, to, port).catch((error: unknown) => ({ failure: error instanceof Failure ? error : new Failure(0, String(error)) }));
    setOpened((old) => ({ ...old, [key]: found }));
    setLast(key);
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
                {shown.map((to) => <td key={to.name}><Cell from={from} to={to} found={opened[`${from.name} ${to.name}`]} open={open} /></td>)}
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
    <button type="button" aria-label={visible(`${from.name} to ${to.name}: ${answer || (found ? "not answered" : "ask")}`)} onClick={() => void open(from, to)}>
      {answer ? <Mark state={stateOf(answer)}>{answer}</Mark> : found ? "!" : "?"}
    </button>
  );
}

function Details({ found, namespace, network }: { found: Opened | undefined; namespace: string; network: string }) {
  if (!found) return <p class="muted">Open a cell to ask: one instance of each is taken.</p>;
  if ("failure" in found) return <Failed failure={found.failure} />;
  return (
    <>
      <h2>{visible(`${found.question.from} to ${found.question.to}, port ${found.question.port}`)}</h2>
      <p><a href={link("networks", [namespace, network, "ask"], queryOf(found.question))}>This question as a link</a></p>
      <Shown reach={found.reach} />
    </>
  );
}

/** The answer for one instance of each. Raises Failure. */
async function asked(base: string, namespace: string, from: Member, to: Member, port: string): Promise<Opened> {
  const chosen = port || to.port;
  if (!chosen) throw new Failure(400, `${to.name} declares no port: say which one.`);
  const [sender, target] = await Promise.all([instanceOf(base, from), instanceOf(base, to)]);
  const question = { from: `${namespace}/${sender}`, to: `${namespace}/${target}`, port: chosen, protocol: to.protocol, both: false };
  return { question, reach: await json<Reach>(whyOf(question, COMPUTE)) };
}

async function instanceOf(base: string, workload: Member): Promise<string> {
  const select = new URLSearchParams({ labelSelector: `${WORKLOAD_NAME}=${workload.name}`, limit: "1" });
  const { items } = await json<{ items: { metadata: { name: string } }[] }>(`${base}/instances?${select}`);
  if (!items[0]) throw new Failure(404, `${workload.name} has no instance yet: see why under Workloads.`);
  return items[0].metadata.name;
}
