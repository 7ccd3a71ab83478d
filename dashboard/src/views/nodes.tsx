// Nodes, and one of them: its ledger, its Pods and its text.
import { link, type Route } from "../logic/routes.ts";
import { cell, visible, word } from "../logic/text.ts";
import { useList } from "../state/lists.ts";
import { Existing } from "../parts/existing.tsx";
import { Command } from "../parts/states.tsx";
import { LiveTable, type More } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { NodeLedger } from "./nodeledger.tsx";
import { CITY, named } from "./paths.ts";
import { YamlText } from "./yaml.tsx";

export function Nodes({ route }: { route: Route }) {
  const [name, tab = "ledger"] = route.parts;
  return name ? <Node name={name} tab={tab} /> : <List />;
}

const MORE: readonly More[] = [{ name: "City", render: (row) => cell(row.labels[CITY]) }];
const WITHOUT = ["Roles"];

function List() {
  return (
    <>
      <h1>Nodes</h1>
      <LiveTable list={useList("/api/v1/nodes")} what="Nodes" empty="No node has joined." href={(row) => link("nodes", [row.name])} urgent more={MORE} without={WITHOUT} />
      <Command text="tarmac node report" />
    </>
  );
}

function Node({ name, tab }: { name: string; tab: string }) {
  return (
    <>
      <h1>{visible(name)}</h1>
      <Existing path={named("/api/v1", "nodes", "", name)} what={`node ${name}`} back={{ href: link("nodes"), name: "All nodes" }}>
        <Tabs tabs={["ledger", "pods", "yaml"].map((each) => ({ name: each, href: link("nodes", [name, each]) }))} chosen={tab} />
        {tab === "ledger" && <NodeLedger key={name} name={name} />}
        {tab === "pods" && <Pods name={name} />}
        {tab === "yaml" && <YamlText path={named("/api/v1", "nodes", "", name)} />}
      </Existing>
      <Command text={`tarmac node report ${word(name)}`} />
    </>
  );
}

function Pods({ name }: { name: string }) {
  const pods = useList("/api/v1/pods", { fieldSelector: `spec.nodeName=${name}` });
  return <LiveTable list={pods} what="Pods" empty="Nothing runs here." href={(row) => link("instances", [row.namespace, row.name])} />;
}
