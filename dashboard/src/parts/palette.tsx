// The palette: recent objects first, then any view, action or object by a few letters of its name. Loaded objects appear at
// once, the rest as they are found; an action on an object once its verb is typed.
import { useMemo, useState } from "preact/hooks";
import { actionsOn, offered, type Choice } from "../logic/palette.ts";
import { link } from "../logic/routes.ts";
import { visible } from "../logic/text.ts";
import { recent } from "../state/recent.ts";
import { THEMES, theme } from "../state/preferences.ts";
import { loadedObjects, useSearch } from "../state/search.ts";
import { Dialog } from "./dialog.tsx";

export function Palette({ views, help, closed }: { views: readonly (readonly [string, string, string])[]; help: () => void; closed: () => void }) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const { found, searching } = useSearch(typed.trim());
  const fixed = useMemo(() => [...recent(), ...views.map(([view, name]) => ({ label: name, what: "view", href: link(view) })), ...actions(help), ...loadedObjects()], []);
  const choices = useMemo(() => offered(unique([...fixed, ...found, ...actionsOn([...fixed, ...found], typed)]), typed), [fixed, found, typed]);
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
        {choices.length === 0 && !searching && <div role="option" aria-selected="false" aria-disabled="true">No matches.</div>}
      </div>
      <p class="muted" role="status">{searching && "Searching…"}</p>
    </Dialog>
  );
}

function actions(help: () => void): Choice[] {
  const shown = [...document.querySelectorAll<HTMLAnchorElement>("main .tabs a")].map((each) => ({ label: each.textContent ?? "", what: "tab of this", href: each.hash }));
  const themes = THEMES.map((each) => ({ label: `Theme: ${each}`, what: "action", act: () => void (theme.value = each) }));
  const copy = () => document.querySelector<HTMLElement>("main .command button")?.click();
  return [...shown, { label: "Copy the command line", what: "action", act: copy }, ...themes, { label: "Keys", what: "action", act: help }];
}

function unique(choices: Choice[]): Choice[] {
  return [...new Map(choices.map((each) => [`${each.what} ${each.label}`, each])).values()];
}
