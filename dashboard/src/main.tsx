// The page: the frame, and in it the view that the address names.
import "./nonce.ts";
import "./theme.css";
import "./shell.css";
import "./parts/parts.css";
import "@xterm/xterm/css/xterm.css"; // here, since no page loads the styles of a file that is loaded later
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { enterByCode, session } from "./api/session.ts";
import { enterByProvider } from "./api/signin.ts";
import { link, parse } from "./logic/routes.ts";
import { visible } from "./logic/text.ts";
import { Help } from "./parts/help.tsx";
import { listen } from "./parts/keys.ts";
import { lazy } from "./parts/lazy.tsx";
import { Palette } from "./parts/palette.tsx";
import { Rail } from "./parts/rail.tsx";
import { Old } from "./parts/states.tsx";
import { TopBar } from "./parts/topbar.tsx";
import { announce, announced, undone } from "./state/announcing.ts";
import { beat } from "./state/heartbeat.ts";
import { closeLists } from "./state/lists.ts";
import { route } from "./state/navigation.ts";
import { Login } from "./views/login.tsx";
import { Planet } from "./views/planet.tsx";
import { Workloads } from "./views/workloads.tsx";

const VIEWS = [
  ["planet", "Planet", "p"], ["workloads", "Workloads", "w"], ["instances", "Instances", "i"],
  ["change", "Change", "c"], ["nodes", "Nodes", "n"],
  ["networks", "Networks", "t"], ["external", "Egress", "e"], ["any", "All objects", "a"],
] as const;

const Anything = lazy(() => import("./views/any.tsx").then((each) => each.Anything));
const Change = lazy(() => import("./views/change.tsx").then((each) => each.Change));
const External = lazy(() => import("./views/external.tsx").then((each) => each.External));
const Instances = lazy(() => import("./views/instances.tsx").then((each) => each.Instances));
const Networks = lazy(() => import("./views/networks.tsx").then((each) => each.Networks));
const Nodes = lazy(() => import("./views/nodes.tsx").then((each) => each.Nodes));

function takeBack(): void {
  const undo = undone.value;
  announce("");
  undo?.();
}

function Page() {
  const [open, setOpen] = useState<"palette" | "help" | null>(null);
  useEffect(() => listen({ palette: () => setOpen("palette"), help: () => setOpen("help"), views: VIEWS }), []);
  useEffect(() => closeLists, [session.value?.token]);
  if (!session.value) return <Login />;
  const at = route.value;
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <div class="shell">
        <Rail />
        <div>
          <TopBar views={VIEWS} palette={() => setOpen("palette")} help={() => setOpen("help")} />
          <Old />
          <main id="main" tabIndex={-1}>
            {at.view === "planet" && <Planet route={at} />}
            {at.view === "workloads" && <Workloads route={at} />}
            {at.view === "instances" && <Instances route={at} />}
            {at.view === "change" && <Change route={at} />}
            {at.view === "nodes" && <Nodes route={at} />}
            {at.view === "networks" && <Networks route={at} />}
            {at.view === "external" && <External route={at} />}
            {at.view === "any" && <Anything route={at} />}
            {!VIEWS.some(([view]) => view === at.view) && <p role="alert">There is no view “{visible(at.view)}”. <a href={link("planet")}>To the planet</a></p>}
          </main>
        </div>
      </div>
      <div class={announced.value ? "toast" : ""}>
        <p role="status">{visible(announced.value)}</p>
        {undone.value && <button type="button" onClick={takeBack}>Undo</button>}
      </div>
      {open === "palette" && <Palette views={VIEWS} help={() => setOpen("help")} closed={() => setOpen((now) => (now === "palette" ? null : now))} />}
      {open === "help" && <Help views={VIEWS} closed={() => setOpen((now) => (now === "help" ? null : now))} />}
    </>
  );
}

await enterByCode();
await enterByProvider();
beat();
route.value = parse(location.hash); // removing the code from the address fires no event
const place = document.getElementById("page");
if (place) render(<Page />, place);
