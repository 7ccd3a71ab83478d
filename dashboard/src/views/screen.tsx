// The screen of a virtual machine: RFB in a WebSocket, drawn by noVNC, which is loaded only here.
import { useEffect, useRef, useState } from "preact/hooks";
import type RFB from "@novnc/novnc";
import { connect, refusal } from "../api/sockets.ts";
import { visible } from "../logic/text.ts";
import { giveBack } from "../parts/terminal.ts";

interface How {
  view: boolean;
  takeover: boolean;
  tries: number;
}

export function Screen({ instance }: { instance: string }) {
  const place = useRef<HTMLDivElement>(null);
  const made = useRef<RFB | null>(null);
  const [state, setState] = useState("Connecting…");
  const [how, setHow] = useState<How>({ view: false, takeover: false, tries: 0 });
  useEffect(() => {
    let gone = false;
    setState("Connecting…");
    void import("@novnc/novnc").then(({ default: Client }) => {
      if (gone || !place.current) return;
      made.current = open(Client, place.current, `${instance}/vnc?${query(how)}`, how.view, (text) => !gone && setState(text));
    });
    return () => {
      gone = true;
      made.current?.disconnect();
      made.current = null;
    };
  }, [instance, how]);
  const again = (next: Partial<How>) => setHow({ ...how, takeover: false, ...next, tries: how.tries + 1 });
  // Before noVNC receives it, or the guest would get the key.
  const onKey = (event: KeyboardEvent) => {
    if (!event.ctrlKey || event.key !== "]") return;
    event.preventDefault();
    event.stopPropagation();
    giveBack();
  };
  return (
    <>
      <p role="status">{visible(state || (how.view ? "You watch." : "Connected. One at a time has the keyboard; if it is somebody else, you watch."))}</p>
      <div class="screen" ref={place} onKeyDownCapture={onKey} role="application" aria-label="Screen of the machine" />
      <p>
        {state && state !== "Connecting…" && <button type="button" onClick={() => again({})}>Connect again</button>}{" "}
        {!state && <button type="button" onClick={() => again({ view: false, takeover: true })}>Take the keyboard</button>}{" "}
        {!state && !how.view && <button type="button" onClick={() => again({ view: true })}>Only watch</button>}{" "}
        {!state && !how.view && <button type="button" onClick={() => made.current?.sendCtrlAltDel()}>Send Ctrl-Alt-Del</button>}
      </p>
      <p class="muted">Every key goes to the machine; Ctrl-] gives the focus back. Nothing is copied to or from it.</p>
    </>
  );
}

function query(how: How): URLSearchParams {
  return new URLSearchParams({ ...(how.view ? { view: "true" } : {}), ...(how.takeover ? { takeover: "true" } : {}) });
}

function open(Client: typeof RFB, place: HTMLElement, path: string, view: boolean, say: (text: string) => void): RFB | null {
  const socket = connect(path, ["binary"]);
  if (!socket) {
    say("This page has as many streams open as it may.");
    return null;
  }
  const screen = new Client(place, socket);
  screen.viewOnly = view;
  screen.scaleViewport = true;
  let connected = false;
  screen.addEventListener("connect", () => {
    connected = true;
    say("");
    screen.focus({ preventScroll: true });
  });
  screen.addEventListener("disconnect", () => (connected ? say("The connection has ended.") : void refusal(path).then(say)));
  screen.addEventListener("securityfailure", () => say("The screen wants a password, which machines here never do."));
  return screen;
}
