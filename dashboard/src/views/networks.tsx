// Networks: the list, the reachability matrix of a network's workloads, and the question whether A reaches B.
import { link, type Route } from "../logic/routes.ts";
import { queryOf, questionOf, type Question } from "../logic/reach.ts";
import { cell, visible, word } from "../logic/text.ts";
import type { Row } from "../api/listwatch.ts";
import { useList } from "../state/lists.ts";
import { useLoaded } from "../state/loaded.ts";
import { Existing } from "../parts/existing.tsx";
import { Command, Failed, Loading, Scrolls } from "../parts/states.tsx";
import { LiveTable } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { Matrix } from "./networksmatrix.tsx";
import { NETWORKING, named } from "./paths.ts";
import { Ask } from "./reach.tsx";

export function Networks({ route }: { route: Route }) {
  const [namespace, name, tab = "matrix"] = route.parts;
  return namespace && name ? <Network namespace={namespace} name={name} tab={tab} query={route.query} /> : <Lists />;
}

function Lists() {
  const any = (plural: string) => (row: Row) => link("any", [...NETWORKING.split("/").slice(2), plural, row.namespace, row.name]);
  return (
    <>
      <h1>Networks</h1>
      <LiveTable list={useList(`${NETWORKING}/networks`)} what="Networks" empty="No network yet: kubectl apply -f examples/network.yaml makes one." href={(row) => link("networks", [row.namespace, row.name])} />
      <h2>Policies</h2>
      <LiveTable list={useList(`${NETWORKING}/networkpolicies`)} what="Policies" empty="No policy: within a network every instance reaches every other." href={any("networkpolicies")} wide />
      <h2>Subnets</h2>
      <LiveTable list={useList(`${NETWORKING}/subnets`)} what="Subnets" empty="No subnet: the first instance in a city makes one." href={any("subnets")} />
      <Command text="kubectl get networks,networkpolicies.networking.datumapis.com,subnets -A" />
    </>
  );
}

function Network({ namespace, name, tab, query }: { namespace: string; name: string; tab: string; query: URLSearchParams }) {
  const tabs = ["matrix", "ask", "subnets"].map((each) => ({ name: each, href: link("networks", [namespace, name, each]) }));
  const ask = (question: Question) => (location.hash = link("networks", [namespace, name, "ask"], queryOf(question)));
  return (
    <>
      <h1>{visible(`${namespace}/${name}`)}</h1>
      <Existing path={named(NETWORKING, "networks", namespace, name)} what={`network ${namespace}/${name}`} back={{ href: link("networks"), name: "All networks" }} command={`kubectl get network ${word(name)} -n ${word(namespace)}`}>
        <Tabs tabs={tabs} chosen={tab} />
        {tab === "matrix" && <Matrix namespace={namespace} network={name} query={query} />}
        {tab === "ask" && <Ask question={questionOf(query, namespace)} onAsk={ask} />}
        {tab === "subnets" && <Subnets namespace={namespace} network={name} />}
      </Existing>
    </>
  );
}

interface Items<T> {
  items: T[];
}

interface Context {
  metadata: { name: string };
  spec: { network?: { name?: string } };
}

interface Subnet {
  metadata: { name: string };
  spec: { networkContext?: { name?: string }; location?: { name?: string }; ipFamily?: string };
  status?: { startAddress?: string; prefixLength?: number; conditions?: { type: string; reason: string }[] };
}

/** The Locations of the network, with its addresses there. */
function Subnets({ namespace, network }: { namespace: string; network: string }) {
  const base = `${NETWORKING}/namespaces/${encodeURIComponent(namespace)}`;
  const about = useLoaded<{ status?: { ipv4Range?: string; ipv6Range?: string } }>(named(NETWORKING, "networks", namespace, network), 30_000);
  const contexts = useLoaded<Items<Context>>(`${base}/networkcontexts`, 30_000);
  const subnets = useLoaded<Items<Subnet>>(`${base}/subnets`, 30_000);
  const failure = about.failure ?? contexts.failure ?? subnets.failure;
  if (failure) return <Failed failure={failure} again={() => [about, contexts, subnets].forEach((each) => each.again())} />;
  if (!about.value || !contexts.value || !subnets.value) return <Loading />;
  const own = new Set(contexts.value.items.filter((each) => each.spec.network?.name === network).map((each) => each.metadata.name));
  const found = subnets.value.items.filter((each) => own.has(each.spec.networkContext?.name ?? ""));
  const ranges = [about.value.status?.ipv4Range, about.value.status?.ipv6Range].filter(Boolean).join(", ");
  return (
    <>
      <p>{visible(ranges ? `Its addresses are of ${ranges}.` : "It has no range of addresses yet.")}</p>
      {found.length === 0 ? <p class="muted">It is in no city yet: the first instance there makes a subnet.</p> : (
        <Scrolls what="Subnets"><table>
          <thead><tr>{["Location", "Family", "Addresses", "Reason", "Subnet"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>
            {found.map((each) => (
              <tr key={each.metadata.name}>
                <th scope="row">{cell(each.spec.location?.name)}</th><td>{cell(each.spec.ipFamily)}</td>
                <td>{each.status?.startAddress ? cell(`${each.status.startAddress}/${each.status.prefixLength ?? ""}`) : ""}</td>
                <td>{cell(each.status?.conditions?.find((one) => one.type === "Ready")?.reason)}</td><td>{cell(each.metadata.name)}</td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
      <Command text={`kubectl get subnets -n ${word(namespace)}`} />
    </>
  );
}
