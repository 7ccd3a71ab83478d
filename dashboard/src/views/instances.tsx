// The list of instances, and one instance: explanation, overview, logs, a terminal, its YAML.
import type { InstanceObject } from "../logic/overview.ts";
import { queryOf, questionOf } from "../logic/reach.ts";
import { link, type Route } from "../logic/routes.ts";
import { visible, word } from "../logic/text.ts";
import type { Row } from "../api/listwatch.ts";
import { useList } from "../state/lists.ts";
import { Delete } from "../parts/ending.tsx";
import { Existing } from "../parts/existing.tsx";
import { useLoaded } from "../state/loaded.ts";
import { Permitted } from "../parts/permitted.tsx";
import { Command } from "../parts/states.tsx";
import { LiveTable } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { Usage } from "../parts/usage.tsx";
import { Events } from "./events.tsx";
import { InstanceHeader } from "./instanceheader.tsx";
import { Logs } from "./logs.tsx";
import { EVERY, Overview } from "./overview.tsx";
import { CITY_LABEL, COMPUTE, METRICS, WORKLOAD_NAME, named, spaced } from "./paths.ts";
import { Power } from "./power.tsx";
import { Ask } from "./reach.tsx";
import { Recordings } from "./recordings.tsx";
import { Screen } from "./screen.tsx";
import { Serial } from "./serial.tsx";
import { Shell } from "./shell.tsx";
import { Why } from "./why.tsx";
import { YamlText } from "./yaml.tsx";

const KINDS = ["Instance", "Pod"]; // of which both bear the name

export function Instances({ route }: { route: Route }) {
  const [namespace, name, tab = "why"] = route.parts;
  return namespace && name ? <Instance namespace={namespace} name={name} tab={tab} query={route.query} /> : <List city={route.query.get("city") ?? ""} workload={route.query.get("workload") ?? ""} />;
}

/** All instances, those of a city, or those of a Workload, given as `NAMESPACE/NAME`. */
function List({ city, workload }: { city: string; workload: string }) {
  const [space = "", name = ""] = workload.split("/");
  const selector = [city && `${CITY_LABEL}=${city}`, name && `${WORKLOAD_NAME}=${name}`].filter(Boolean).join(",");
  const list = useList(name ? spaced(COMPUTE, "instances", space) : `${COMPUTE}/instances`, selector ? { labelSelector: selector } : {});
  return (
    <>
      <h1>Instances{name && visible(` of ${name}`)}{city && visible(` in ${city}`)}</h1>
      {selector && <p><a href={link("instances")}>{city && !name ? "All cities" : "All instances"}</a></p>}
      <LiveTable list={list} what="Instances" empty="No instance is here." href={(row: Row) => link("instances", [row.namespace, row.name])} urgent />
      <Command text={`kubectl get instances ${name ? `-n ${word(space)}` : "-A"}${selector ? ` -l ${word(selector)}` : ""}`} />
    </>
  );
}

function Instance({ namespace, name, tab, query }: { namespace: string; name: string; tab: string; query: URLSearchParams }) {
  const path = named(COMPUTE, "instances", namespace, name);
  const pod = named("/api/v1", "pods", namespace, name);
  const { value, failure } = useLoaded<InstanceObject>(path, EVERY);
  const machine = Boolean(value?.spec.runtime?.virtualMachine);
  const known = value !== null || failure !== null; // until then the kind of its terminal is unknown
  const names = ["why", "logs", "terminal", ...(machine || tab === "screen" || tab === "recordings" ? ["screen", "recordings"] : []), "network", "events", "yaml"];
  const to = (each: string) => link("instances", [namespace, name, each]);
  const tabs = names.map((each) => ({ name: each, href: to(each) }));
  const right = { verb: "create", group: "compute.datumapis.com", resource: "instances", namespace, name };
  const about = `${word(name)} -n ${word(namespace)}`;
  const commands: Record<string, string> = {
    why: `tarmac why instance/${about}`,
    terminal: machine ? `tarmac console ${about}` : `kubectl exec -it ${about} -- /bin/sh`,
    screen: `tarmac vnc ${about}`, events: `kubectl events --for instance/${about}`, yaml: `kubectl get instance ${about} -o yaml`,
  };
  const command = commands[tab];
  return (
    <>
      <Existing path={path} title={`${namespace}/${name}`} or={pod} what={`instance ${namespace}/${name}`} back={{ href: link("instances"), name: "All instances" }}>
        <InstanceHeader namespace={namespace} name={name} instance={value} />
        <Tabs tabs={tabs} chosen={tab} />
        {machine && (tab === "terminal" || tab === "screen") && <Power instance={path} namespace={namespace} name={name} />}
        {tab === "why" && <Why path={path} />}
        {tab === "why" && value && <Overview instance={value} />}
        {tab === "why" && !value && failure && <p class="muted">{visible(`Its parts are not known: ${failure.message}`)}</p>}
        {tab === "why" && !value && failure && <Usage path={named(METRICS, "pods", namespace, name)} />}
        {tab === "logs" && <Logs key={pod} pod={pod} namespace={namespace} name={name} query={query} />}
        {tab === "terminal" && known && (machine
          ? <Permitted to="Open the console" what={{ ...right, subresource: "console" }}><Serial key={path} instance={path} events={to("events")} /></Permitted>
          : <Permitted to="Open a terminal" what={{ ...right, group: "", resource: "pods", subresource: "exec" }}><Shell key={pod} pod={pod} logs={to("logs")} /></Permitted>)}
        {tab === "screen" && <Permitted to="Open the screen" what={{ ...right, subresource: "vnc" }}><Screen key={path} instance={path} terminal={to("terminal")} /></Permitted>}
        {tab === "recordings" && <Recordings instance={path} namespace={namespace} name={name} session={query.get("session") ?? ""} />}
        {tab === "network" && <Ask question={questionOf(query, namespace, `${namespace}/${name}`)} onAsk={(asked) => (location.hash = link("instances", [namespace, name, "network"], queryOf(asked)))} />}
        {tab === "events" && <Events namespace={namespace} name={name} selector={`involvedObject.name=${name}`} kinds={KINDS} />}
        {tab === "yaml" && <YamlText path={path} />}
        <Delete what={{ path, group: "compute.datumapis.com", plural: "instances", namespace, name }} />
      </Existing>
      {command && <Command text={command} />}
    </>
  );
}
