// The left rail: every view with its icon, and how many objects in it need attention. Narrow screens open it as a drawer.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Boxes, Globe, Layers, List, LogOut, Menu, PanelLeft, Server, Waypoints } from "lucide-preact";
import { link } from "../logic/routes.ts";
import { attention, severityOf } from "../logic/severity.ts";
import { useList } from "../state/lists.ts";
import { route } from "../state/navigation.ts";
import { folded } from "../state/preferences.ts";
import { COMPUTE } from "../views/paths.ts";
import { Logo } from "./icons.tsx";

/** True while the drawer of a narrow screen is open. */
export const drawer = signal(false);

const GROUPS: readonly (readonly [group: string, views: readonly (readonly [view: string, name: string, icon: typeof Globe])[]])[] = [
  ["", [["planet", "Planet", Globe]]],
  ["Run", [["workloads", "Workloads", Layers], ["instances", "Instances", Boxes]]],
  ["Connect", [["networks", "Networks", Waypoints], ["external", "Egress", LogOut]]],
  ["Cluster", [["nodes", "Nodes", Server], ["any", "All objects", List]]],
];

export function Rail() {
  const { view } = route.value;
  useEffect(() => {
    drawer.value = false;
  }, [route.value]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => void (event.key === "Escape" && (drawer.value = false));
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <aside aria-label="Rail" class={`rail${folded.value ? " folded" : ""}${drawer.value ? " open" : ""}`} id="rail">
      <a class="brand" href={link("planet")} aria-label="Tarmac, to the planet"><Logo /><span class="name" aria-hidden="true">Tarmac</span></a>
      <nav aria-label="Views">
        {GROUPS.map(([group, views]) => (
          <>
            {group && <p class="group" aria-hidden="true" key={group}>{group}</p>}
            {views.map(([each, name, Icon]) => (
              <a key={each} href={link(each)} aria-current={each === view ? "page" : undefined} title={folded.value ? name : undefined}>
                <Icon class="icon" aria-hidden="true" /><span class="name">{name}</span>{each === "workloads" && <Problems />}
              </a>
            ))}
          </>
        ))}
      </nav>
      <button type="button" class="plain collapse" aria-pressed={folded.value} onClick={() => (folded.value = !folded.value)}>
        <PanelLeft class="icon" aria-hidden="true" /><span class="name">Collapse</span>
      </button>
    </aside>
  );
}

/** How many workloads need attention. */
function Problems() {
  const list = useList(`${COMPUTE}/workloads`);
  const columns = list?.columns.value ?? [];
  const count = (list?.rows.value ?? []).filter((row) => attention(severityOf(row, columns))).length;
  return count ? <span class="badge"><span class="unseen">, </span>{count}<span class="unseen"> need attention</span></span> : null;
}

export function DrawerButton() {
  return (
    <button type="button" class="plain opener" aria-expanded={drawer.value} aria-controls="rail" aria-label="Views" onClick={() => (drawer.value = !drawer.value)}>
      <Menu class="icon" aria-hidden="true" />
    </button>
  );
}
