// External services: from a Service over its source address to the gateway that owns the address.
import { bytes, waysOf, type Address, type Connection, type External as Service } from "../logic/external.ts";
import { fraction, health } from "../logic/health.ts";
import { link, type Route } from "../logic/routes.ts";
import { age, cell, visible, word } from "../logic/text.ts";
import type { Row } from "../api/listwatch.ts";
import { useList } from "../state/lists.ts";
import { useLoaded, type Loaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";
import { Existing } from "../parts/existing.tsx";
import { Command, Failed, Loading, Mark, Scrolls } from "../parts/states.tsx";
import { LiveTable } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { SUBMARINER, named } from "./paths.ts";
import { Why } from "./why.tsx";
import { YamlText } from "./yaml.tsx";

const EVERY = 5000;

export function External({ route }: { route: Route }) {
  const [namespace, name, tab = "ways"] = route.parts;
  return namespace && name ? <One key={`${namespace}/${name}`} namespace={namespace} name={name} tab={tab} /> : <Lists />;
}

function Lists() {
  const any = (plural: string) => (row: Row) => link("any", [...SUBMARINER.split("/").slice(2), plural, row.namespace || "-", row.name]);
  const list = (plural: string) => useList(`${SUBMARINER}/${plural}`);
  return (
    <>
      <h1>Egress</h1>
      <LiveTable list={list("externalservices")} what="External services" empty="None yet: kubectl apply -f examples/externalservice.yaml makes one." href={(row) => link("external", [row.namespace, row.name])} />
      <h2>Claims of addresses</h2>
      <LiveTable list={list("sourceipclaims")} what="Claims" empty="No namespace holds an address." href={any("sourceipclaims")} wide />
      <h2>Addresses</h2>
      <LiveTable list={list("sourceips")} what="Addresses" empty="No address is in use." href={any("sourceips")} wide />
      <h2>Gateways</h2>
      <LiveTable list={list("gateways")} what="Gateways" empty="No node carries an address." href={any("gateways")} wide />
      <Command text="kubectl get externalservices,sourceipclaims,sourceips,gateways.submariner.io -A" />
    </>
  );
}

interface Connections {
  connections: Connection[];
  more: boolean;
  silent: string[];
}

function One({ namespace, name, tab }: { namespace: string; name: string; tab: string }) {
  const path = named(SUBMARINER, "externalservices", namespace, name);
  const tabs = ["ways", "connections", "why", "yaml"].map((each) => ({ name: each, href: link("external", [namespace, name, each]) }));
  const command = tab === "why" ? `tarmac why extsvc/${word(name)} -n ${word(namespace)}` : `kubectl get externalservice ${word(name)} -n ${word(namespace)} -o yaml`;
  return (
    <>
      <h1>{visible(`${namespace}/${name}`)}</h1>
      <Existing path={path} what={`external service ${namespace}/${name}`} back={{ href: link("external"), name: "All external services" }}>
        <Tabs tabs={tabs} chosen={tab} />
        {tab === "ways" && <Ways path={path} />}
        {tab === "connections" && <Live path={path} />}
        {tab === "why" && <Why path={path} />}
        {tab === "yaml" && <YamlText path={path} />}
      </Existing>
      <Command text={command} />
    </>
  );
}

function Ways({ path }: { path: string }) {
  const service = useLoaded<Service>(path, EVERY);
  const live = useLoaded<Connections>(`${path}/connections`, EVERY);
  const addresses = useLoaded<{ items: Address[] }>(`${SUBMARINER}/sourceips`, EVERY); // cluster-scoped: many users may not read them
  if (!service.value) return service.failure ? <Failed failure={service.failure} again={service.again} /> : <Loading />;
  const { spec, status } = service.value;
  const ways = waysOf(service.value, live.value?.connections ?? [], addresses.value?.items ?? []);
  const ports = (status?.ports ?? []).map((each) => `${each.dialPort} to ${each.targetPort}/${each.protocol}`).join(", ");
  return (
    <>
      {service.failure && <Failed failure={service.failure} again={service.again} />}
      <p>{visible(`Pods dial ${status?.hostname || "a name that is not there yet"}${status?.addresses?.length ? ` (${status.addresses.join(", ")})` : ""}, ports ${ports || "none yet"}; the server outside is ${spec.targetIP}.`)}</p>
      {ways.length === 0 ? <p class="muted">No source is known yet: see why.</p> : (
        <Scrolls what="Ways"><table>
          <thead><tr>{["Service", "Address", "Gateway", "Location", "Pods", "Inbound", "Connections", "Out", "In", "Owners so far", "Last failover", "Reason"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>
            {ways.map((each) => (
              <tr key={`${each.service} ${each.address}`}>
                <th scope="row">{cell(each.service)}</th>
                <td>{cell(each.address ? `→ ${each.address}` : "none")}</td>
                <td><Mark state={each.gateway ? "yes" : "no"}>{each.gateway ? `→ ${each.gateway}` : "no owner"}</Mark></td>
                <td>{cell(each.location)}</td>
                <td><Mark state={health(...(fraction(each.pods) ?? [0, 0]))}>{each.pods}</Mark></td>
                <td>{each.inbound}</td>
                <td>{live.value ? each.connections : "?"}</td>
                <td>{live.value ? bytes(each.out) : "?"}</td>
                <td>{live.value ? bytes(each.in) : "?"}</td>
                <td>{addresses.value ? each.owners : "?"}</td>
                <td title={cell(each.failover)}>{each.failover ? `${age(each.failover, now.value)} ago` : addresses.value ? "never" : "?"}</td>
                <td title={cell(each.message)}>{cell(each.reason)}</td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
      <Doubt live={live} />
      {addresses.failure && <p class="muted">{visible(`Failovers are not known: ${addresses.failure.message}`)}</p>}
      <h2>Why</h2>
      <Why path={path} />
    </>
  );
}

function Live({ path }: { path: string }) {
  const found = useLoaded<Connections>(`${path}/connections`, EVERY);
  if (!found.value) return found.failure ? <Failed failure={found.failure} again={found.again} /> : <Loading />;
  const { connections } = found.value;
  return (
    <>
      <Doubt live={found} />
      {connections.length === 0 ? <p class="muted">No connection is open now. Asked every five seconds while this is shown.</p> : (
        <Scrolls what="Connections"><table>
          <thead><tr>{["Pod", "Node", "Way", "Dialled", "Target", "Seen as", "Gateway", "Out", "In", "Age"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>
            {connections.map((each) => (
              <tr key={`${each.pod} ${each.dialled} ${each.target} ${each.sourcePort} ${each.since}`}>
                <th scope="row">{cell(each.pod)}</th><td>{cell(each.node)}</td><td>{cell(`${each.direction} ${each.protocol}`)}</td>
                <td>{cell(each.dialled)}</td><td>{cell(each.target)}</td>
                <td>{cell(each.sourceIP ? `${each.sourceIP}:${each.sourcePort}` : "no gateway knows it")}</td>
                <td>{cell(each.gateway)}</td><td>{bytes(each.bytesOut)}</td><td>{bytes(each.bytesIn)}</td><td>{age(each.since, now.value)}</td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
    </>
  );
}

/** The reason why connections are unknown. */
function Doubt({ live }: { live: Loaded<Connections> }) {
  const silent = live.value?.silent ?? [];
  return (
    <>
      {live.failure && <p class="stale" role="status">{visible(`Connections are not known: ${live.failure.message}`)}</p>}
      {silent.length > 0 && <p class="stale" role="status">{visible(`Nodes that did not answer, so their connections are missing: ${silent.join(", ")}`)}</p>}
      {live.value?.more && <p class="muted">There are more connections than are shown.</p>}
    </>
  );
}
