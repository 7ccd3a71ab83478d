// The bar on top: where the page is, which namespace it shows, search, whether the server answers, and the user's menu.
import { CircleHelp, Plus, Search, UserRound } from "lucide-preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { json } from "../api/requests.ts";
import { session, signOut } from "../api/session.ts";
import { link, type Route } from "../logic/routes.ts";
import { visible } from "../logic/text.ts";
import { old } from "../state/freshness.ts";
import { now, route } from "../state/navigation.ts";
import { THEMES, theme, type Theme } from "../state/preferences.ts";
import { Namespaces } from "./namespaces.tsx";
import { DrawerButton } from "./rail.tsx";

/** Names of one object, by the view that shows it. */
const KINDS: Record<string, string> = { workloads: "Workload", instances: "Instance", nodes: "Node", networks: "Network", external: "External service" };

interface Openers {
  views: readonly (readonly [view: string, name: string, letter: string])[];
  palette: () => void;
  help: () => void;
}

export function TopBar({ views, palette, help }: Openers) {
  return (
    <header class="topbar">
      <DrawerButton />
      <Crumbs route={route.value} views={views} />
      <span class="space" />
      <Live />
      <Namespaces />
      <button type="button" class="search" aria-keyshortcuts="Control+K" aria-label="Search" onClick={palette}><Search class="icon" aria-hidden="true" /><span class="name">Search</span> <kbd>Ctrl K</kbd></button>
      <a class="button create" href={link("change")} aria-label="Change"><Plus class="icon" aria-hidden="true" /><span class="name">Change</span></a>
      <button type="button" class="plain keys" aria-label="Keys" onClick={help}><CircleHelp class="icon" aria-hidden="true" /></button>
      <UserMenu />
    </header>
  );
}

function Crumbs({ route: { view, parts }, views }: { route: Route; views: Openers["views"] }) {
  const name = (parts.length && KINDS[view]) || (views.find(([each]) => each === view)?.[1] ?? view);
  return (
    <nav class="crumbs" aria-label="Breadcrumb">
      <ol>
        <li>{parts.length ? <a href={link(view)}>{visible(name)}</a> : <span aria-current="page">{visible(name)}</span>}</li>
        {parts.filter((each) => each !== "-").map((each, index, all) => (
          <li key={index}>{index === all.length - 1 ? <span aria-current="page">{visible(each)}</span> : visible(each)}</li>
        ))}
      </ol>
    </nav>
  );
}

function Live() {
  if (!old.value) return <span class="live">Live</span>;
  return <span class="live stale">{`No answer for ${Math.max(1, Math.round((now.value - old.value.since) / 1000))} s`}</span>;
}

function UserMenu() {
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const outside = (event: Event) => void (!place.current?.contains(event.target as Node) && setOpen(false));
    const pressed = (event: KeyboardEvent) => void (event.key === "Escape" && setOpen(false));
    addEventListener("pointerdown", outside);
    addEventListener("keydown", pressed);
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("keydown", pressed);
    };
  }, []);
  return (
    <details class="user" ref={place} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary aria-label="User menu"><UserRound class="icon" aria-hidden="true" /></summary>
      {open && <Sheet />}
    </details>
  );
}

function Sheet() {
  const [user, setUser] = useState("…");
  const [version, setVersion] = useState("");
  useEffect(() => {
    const body = JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
    const asked = json<{ status?: { userInfo?: { username?: string } } }>("/apis/authentication.k8s.io/v1/selfsubjectreviews", { method: "POST", type: "application/json", body });
    void asked.then((answer) => setUser(answer.status?.userInfo?.username ?? "not known"), () => setUser("not known"));
    void json<{ gitVersion?: string }>("/version").then((answer) => setVersion(answer.gitVersion ?? ""), () => setVersion(""));
  }, []);
  return (
    <div class="sheet">
      <p><strong>{visible(user)}</strong></p>
      <p class="muted">{visible(session.value?.server ?? "")} {visible(version)}</p>
      <label>Theme <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>{THEMES.map((each) => <option key={each}>{each}</option>)}</select></label>
      <button type="button" onClick={signOut}>Sign out</button>
    </div>
  );
}
