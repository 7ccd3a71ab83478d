// Nodes with their load, and one of them: its state, its ledger, its Pods and its text.
import { useMemo } from "preact/hooks";
import type { Row } from "../api/listwatch.ts";
import type { Account } from "../logic/ledger.ts";
import { gpusOf, loadOf, type Load } from "../logic/load.ts";
import { link, type Route } from "../logic/routes.ts";
import { cell, word } from "../logic/text.ts";
import { useAnswer } from "../state/answers.ts";
import { useList } from "../state/lists.ts";
import { useMay } from "../state/rights.ts";
import { Existing } from "../parts/existing.tsx";
import { LoadBar } from "../parts/loadbar.tsx";
import { Command } from "../parts/states.tsx";
import { LiveTable, type More } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { NodeHeader } from "./nodeheader.tsx";
import { NodeLedger } from "./nodeledger.tsx";
import { CITY, named } from "./paths.ts";
import { YamlText } from "./yaml.tsx";

export function Nodes({ route }: { route: Route }) {
  const [name, tab = "ledger"] = route.parts;
  return name ? <Node name={name} tab={tab} /> : <List />;
}

/** In place of kubectl's columns that say the same for every node, or nothing here. */
const WITHOUT = ["Roles"];

function List() {
  const may = useMay({ verb: "get", group: "", resource: "nodes", subresource: "ledger", namespace: "" });
  const more = useMemo((): readonly More[] => [
    { name: "City", render: (row) => cell(row.labels[CITY]) },
    ...(may ? LOADS.map(([name, load]) => ({ name, render: (row: Row) => <Cell name={row.name} load={load} /> })) : []),
  ], [may]);
  return (
    <>
      <h1>Nodes</h1>
      <LiveTable list={useList("/api/v1/nodes")} what="Nodes" empty="No node has joined." href={(row) => link("nodes", [row.name])} urgent more={more} without={WITHOUT} />
      <Command text="tarmac node report" />
    </>
  );
}

const LOADS: readonly (readonly [name: string, load: (resources: readonly Account[]) => Load | null])[] = [
  ["Pods", (all) => loadOf(all, "pods")], ["CPU", (all) => loadOf(all, "cpu")], ["Memory", (all) => loadOf(all, "memory")], ["GPUs", gpusOf],
];

/** One resource of a node, from its ledger, which all cells of the row share. */
function Cell({ name, load }: { name: string; load: (resources: readonly Account[]) => Load | null }) {
  const ledger = useAnswer<{ resources: Account[] }>(`${named("/api/v1", "nodes", "", name)}/ledger`);
  const found = ledger && load(ledger.resources);
  return found ? <LoadBar load={found} /> : null;
}

function Node({ name, tab }: { name: string; tab: string }) {
  const path = named("/api/v1", "nodes", "", name);
  return (
    <>
      <Existing path={path} what={`node ${name}`} back={{ href: link("nodes"), name: "All nodes" }} title={name}>
        <NodeHeader path={path} name={name} />
        <Tabs tabs={["ledger", "pods", "yaml"].map((each) => ({ name: each, href: link("nodes", [name, each]) }))} chosen={tab} />
        {tab === "ledger" && <NodeLedger key={name} name={name} />}
        {tab === "pods" && <Pods name={name} />}
        {tab === "yaml" && <YamlText path={path} />}
      </Existing>
      <Command text={`tarmac node report ${word(name)}`} />
    </>
  );
}

function Pods({ name }: { name: string }) {
  const pods = useList("/api/v1/pods", { fieldSelector: `spec.nodeName=${name}` });
  return <LiveTable list={pods} what="Pods" empty="Nothing runs here." href={(row) => link("instances", [row.namespace, row.name])} />;
}
