// The palette: any view, action or object by a few letters of its name. Loaded objects appear at once, the rest is requested by name.
import { useEffect, useMemo, useState } from "preact/hooks";
import { kinds } from "../api/discovery.ts";
import { json } from "../api/requests.ts";
import { offered, type Choice } from "../logic/palette.ts";
import { link } from "../logic/routes.ts";
import { visible } from "../logic/text.ts";
import { openLists } from "../state/lists.ts";
import { THEMES, theme } from "../state/preferences.ts";
import { COMPUTE } from "../views/paths.ts";
import { Dialog } from "./dialog.tsx";

const PAUSE = 250; // debounce of typing
const OBJECTS: [path: string, view: string, what: string][] = [
  [`${COMPUTE}/workloads`, "workloads", "Workload"], [`${COMPUTE}/instances`, "instances", "Instance"], ["/api/v1/nodes", "nodes", "Node"],
];

interface Named {
  items: { metadata: { name: string; namespace?: string } }[];
}

export function Palette({ views, help, closed }: { views: readonly (readonly [string, string, string])[]; help: () => void; closed: () => void }) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const found = useFound(typed.trim());
  const fixed = useMemo(() => [...views.map(([view, name]) => ({ label: name, what: "view", href: link(view) })), ...actions(help), ...loaded()], []);
  const choices = offered(unique([...fixed, ...found]), typed);
  const at = Math.min(chosen, choices.length - 1);
  const take = (choice: Choice | undefined) => {
    if (!choice) return;
    closed();
    if (choice.href) location.hash = choice.href;
    choice.act?.();
  };
  const pressed = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
    if (by) setChosen(Math.max(0, Math.min(choices.length - 1, at + by)));
    else if (event.key === "Enter") take(choices[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to" closed={closed}>
      <input type="text" role="combobox" aria-label="A view, an action or the name of an object" aria-expanded="true" aria-controls="choices" autocomplete="off" spellcheck={false}
        aria-activedescendant={choices.length ? `choice-${at}` : undefined} value={typed} onKeyDown={pressed}
        onInput={(event) => (setTyped(event.currentTarget.value), setChosen(0))} />
      <div id="choices" role="listbox" aria-label="Choices" class="choices">
        {choices.map((each, index) => (
          <div key={`${each.what} ${each.label}`} id={`choice-${index}`} role="option" aria-selected={index === at} onClick={() => take(each)}
            ref={(made) => void (index === at && made?.scrollIntoView({ block: "nearest" }))}>
            {visible(each.label)} <span class="what">{visible(each.what)}</span>
          </div>
        ))}
        {choices.length === 0 && <div role="option" aria-selected="false" aria-disabled="true">No matches.</div>}
      </div>
    </Dialog>
  );
}

function actions(help: () => void): Choice[] {
  const shown = [...document.querySelectorAll<HTMLAnchorElement>("main .tabs a")].map((each) => ({ label: each.textContent ?? "", what: "tab of this", href: each.hash }));
  const themes = THEMES.map((each) => ({ label: `Theme: ${each}`, what: "action", act: () => void (theme.value = each) }));
  const copy = () => document.querySelector<HTMLElement>("main .command button")?.click();
  return [...shown, { label: "Copy the command line", what: "action", act: copy }, ...themes, { label: "Keys", what: "action", act: help }];
}

/** Objects of the lists that are open. */
function loaded(): Choice[] {
  return OBJECTS.flatMap(([path, view, what]) => openLists(path).flatMap((list) => list.rows.peek().map((row) => choice(view, what, row.namespace, row.name))));
}

/** Kinds, and objects of exactly this name. Rights may leave out some; the rest is offered. */
function useFound(name: string): Choice[] {
  const [found, setFound] = useState<Choice[]>([]);
  useEffect(() => {
    if (!name) return setFound([]);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const asked = OBJECTS.map(async ([path, view, what]) => {
        const { items } = await json<Named>(`${path}?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`, { signal: abort.signal });
        return items.map(({ metadata }) => choice(view, what, metadata.namespace ?? "", metadata.name));
      });
      void Promise.allSettled([kindChoices(), ...asked]).then((answers) => {
        if (!abort.signal.aborted) setFound(answers.flatMap((each) => (each.status === "fulfilled" ? each.value : [])));
      });
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [name]);
  return found;
}

async function kindChoices(): Promise<Choice[]> {
  const listed = (await kinds()).filter((each) => each.verbs.includes("list"));
  return listed.map((each) => ({ label: each.kind, what: each.group || "core", href: link("any", [each.group || "core", each.version, each.plural]) }));
}

function choice(view: string, what: string, namespace: string, name: string): Choice {
  return { label: namespace ? `${namespace}/${name}` : name, what, href: link(view, namespace ? [namespace, name] : [name]) };
}

function unique(choices: Choice[]): Choice[] {
  return [...new Map(choices.map((each) => [`${each.what} ${each.label}`, each])).values()];
}
