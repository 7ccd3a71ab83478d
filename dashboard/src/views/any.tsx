// Anything: every kind the server has, as the Table it prints, without code for it.
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
import { named } from "./paths.ts";
import { YamlText } from "./yaml.tsx";

export function Anything({ route }: { route: Route }) {
  const [group, version, plural, namespace, name] = route.parts;
  if (!group || !version || !plural) return <Kinds />;
  const base = baseOf({ group: group === "core" ? "" : group, version });
  if (namespace && name) return <One base={base} group={group === "core" ? "" : group} plural={plural} namespace={namespace === "-" ? "" : namespace} name={name} />;
  return <Many base={base} group={group} version={version} plural={plural} />;
}

function Kinds() {
  const [found, setFound] = useState<Kind[] | Failure | null>(null);
  useEffect(() => void kinds().then(setFound, (error: unknown) => setFound(failureIn(error))), []);
  if (found === null) return <Loading />;
  if (found instanceof Failure) return <Failed failure={found} />;
  const listed = found.filter((each) => each.verbs.includes("list"));
  return (
    <>
      <h1>Anything</h1>
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

function Many({ base, group, version, plural }: { base: string; group: string; version: string; plural: string }) {
  const list = useList(`${base}/${plural}`);
  const href = (row: Row) => link("any", [group, version, plural, row.namespace || "-", row.name]);
  return (
    <>
      <h1>{visible(plural)}</h1>
      <LiveTable list={list} what={plural} empty={`There are no ${plural}.`} href={href} wide />
      <Command text={`kubectl get ${word(group === "core" ? plural : `${plural}.${group}`)} -A`} />
    </>
  );
}

function One({ base, group, plural, namespace, name }: { base: string; group: string; plural: string; namespace: string; name: string }) {
  const path = named(base, plural, namespace, name);
  return (
    <>
      <h1>{visible(namespace ? `${namespace}/${name}` : name)}</h1>
      <YamlText path={path} />
      <Delete what={{ path, group, plural, namespace, name }} />
      <Command text={`kubectl get ${word(plural)} ${word(name)}${namespace ? ` -n ${word(namespace)}` : ""} -o yaml`} />
    </>
  );
}
