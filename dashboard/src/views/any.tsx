// Anything: every kind that the server has, shown as the server's Table without code of its own; one object as YAML, and its events.
import { useEffect, useState } from "preact/hooks";
import { baseOf, kinds, type Kind } from "../api/discovery.ts";
import { Failure, failureIn } from "../api/requests.ts";
import { link, type Route } from "../logic/routes.ts";
import { visible, word } from "../logic/text.ts";
import type { Row } from "../api/listwatch.ts";
import { useList } from "../state/lists.ts";
import { Delete } from "../parts/ending.tsx";
import { Command, Failed, Loading } from "../parts/states.tsx";
import { LiveTable } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { EventsOfOne } from "./events.tsx";
import { Owners } from "./owners.tsx";
import { named } from "./paths.ts";
import { YamlText } from "./yaml.tsx";

const TABS = ["yaml", "events"];

export function Anything({ route }: { route: Route }) {
  const [group, version, plural, namespace, name, tab = "yaml"] = route.parts;
  if (!group || !version || !plural) return <Kinds />;
  const kind = { group: group === "core" ? "" : group, version, plural };
  return namespace && name ? <One kind={kind} namespace={namespace === "-" ? "" : namespace} name={name} tab={tab} /> : <Many kind={kind} />;
}

function Kinds() {
  const [found, setFound] = useState<Kind[] | Failure | null>(null);
  useEffect(() => void kinds().then(setFound, (error: unknown) => setFound(failureIn(error))), []);
  if (found === null) return <Loading />;
  if (found instanceof Failure) return <Failed failure={found} />;
  const listed = found.filter((each) => each.verbs.includes("list"));
  return (
    <>
      <h1>All objects</h1>
      {[...new Set(listed.map((each) => each.group))].map((group) => (
        <section key={group}>
          <h2>{visible(group || "core")}</h2>
          <ul class="kinds">
            {listed.filter((each) => each.group === group).map((each) => (
              <li key={each.plural}><a href={link("any", [group || "core", each.version, each.plural])}>{visible(each.kind)}</a></li>
            ))}
          </ul>
        </section>
      ))}
      <Command text="kubectl api-resources" />
    </>
  );
}

interface Named {
  group: string;
  version: string;
  plural: string;
}

/** The kind for commands, with its group: several groups may have a kind of the same name. */
const full = ({ group, plural }: Named) => (group ? `${plural}.${group}` : plural);
const partsOf = ({ group, version, plural }: Named) => [group || "core", version, plural];

function Many({ kind }: { kind: Named }) {
  const list = useList(`${baseOf(kind)}/${kind.plural}`);
  const href = (row: Row) => link("any", [...partsOf(kind), row.namespace || "-", row.name]);
  return (
    <>
      <h1>{visible(kind.plural)}</h1>
      <LiveTable list={list} what={kind.plural} empty={`There are no ${kind.plural}.`} href={href} wide />
      <Command text={`kubectl get ${word(full(kind))} -A`} />
    </>
  );
}

function One({ kind, namespace, name, tab }: { kind: Named; namespace: string; name: string; tab: string }) {
  const { group, plural } = kind;
  const path = named(baseOf(kind), plural, namespace, name);
  const to = (each: string) => link("any", [...partsOf(kind), namespace || "-", name, each]);
  const space = namespace ? ` -n ${word(namespace)}` : "";
  const events = `kubectl events --for ${word(`${full(kind)}/${name}`)}${space || " --all-namespaces"}`;
  return (
    <>
      <h1>{visible(namespace ? `${namespace}/${name}` : name)}</h1>
      <Owners key={path} path={path} namespace={namespace} />
      <Tabs tabs={TABS.map((each) => ({ name: each, href: to(each) }))} chosen={tab} />
      {tab === "yaml" && <YamlText path={path} />}
      {tab === "events" && <EventsOfOne key={path} path={path} namespace={namespace} name={name} />}
      {!TABS.includes(tab) && <p role="alert">An object has no “{visible(tab)}”. <a href={to("yaml")}>To its text</a></p>}
      <Delete what={{ path, group, plural, namespace, name }} />
      <Command text={tab === "events" ? events : `kubectl get ${word(plural)} ${word(name)}${space} -o yaml`} />
    </>
  );
}
