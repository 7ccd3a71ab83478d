// The screen of a virtual machine: RFB in a WebSocket, drawn by noVNC, which is loaded only here.
import { useEffect, useRef, useState } from "preact/hooks";
import type RFB from "@novnc/novnc";
import { connect, refusal } from "../api/sockets.ts";
import { visible } from "../logic/text.ts";
import { Unavailable } from "../parts/states.tsx";
import { giveBack } from "../parts/terminal.ts";

interface How {
  view: boolean;
  takeover: boolean;
  tries: number;
}

interface State {
  said: string;
  /** True if it was never open: there is no picture to keep. */
  refused: boolean;
}

const CONNECTING: State = { said: "Connecting…", refused: false };
const FULL: State = { said: "This page has as many streams open as it may.", refused: true };

export function Screen({ instance, terminal }: { instance: string; terminal: string }) {
  const place = useRef<HTMLDivElement>(null);
  const made = useRef<RFB | null>(null);
  const [state, setState] = useState(CONNECTING);
  const [how, setHow] = useState<How>({ view: false, takeover: false, tries: 0 });
  useEffect(() => {
    let gone = false;
    setState(CONNECTING);
    void import("@novnc/novnc").then(({ default: Client }) => {
      if (gone || !place.current) return;
      made.current = open(Client, place.current, `${instance}/vnc?${query(how)}`, how.view, (told) => !gone && setState(told));
    });
    return () => {
      gone = true;
      made.current?.disconnect();
      made.current = null;
    };
  }, [instance, how]);
  const again = (next: Partial<How>) => {
    setState(CONNECTING); // together with the attempt: its place has to be there when noVNC is
    setHow({ ...how, takeover: false, ...next, tries: how.tries + 1 });
  };
  // Before noVNC receives it, or the guest would get the key.
  const onKey = (event: KeyboardEvent) => {
    if (!event.ctrlKey || event.key !== "]") return;
    event.preventDefault();
    event.stopPropagation();
    giveBack();
  };
  const { said, refused } = state;
  if (refused) return <Unavailable title="The screen could not be opened." reason={said} again={() => again({})} name="Connect again" instead={{ href: terminal, name: "Open its console" }} />;
  return (
    <>
      <p role="status">{visible(said || (how.view ? "You watch." : "Connected. One client at a time has the keyboard; the rest watch."))}</p>
      <div class="screen" ref={place} onKeyDownCapture={onKey} role="application" aria-label="Screen of the machine" />
      <p>
        {said && state !== CONNECTING && <button type="button" onClick={() => again({})}>Connect again</button>}{" "}
        {!said && <button type="button" onClick={() => again({ view: false, takeover: true })}>Take the keyboard</button>}{" "}
        {!said && !how.view && <button type="button" onClick={() => again({ view: true })}>Only watch</button>}{" "}
        {!said && !how.view && <button type="button" onClick={() => made.current?.sendCtrlAltDel()}>Send Ctrl-Alt-Del</button>}
      </p>
      <p class="muted">Every key goes to the machine; Ctrl-] gives the focus back. Nothing is copied to or from it.</p>
    </>
  );
}

function query(how: How): URLSearchParams {
  return new URLSearchParams({ ...(how.view ? { view: "true" } : {}), ...(how.takeover ? { takeover: "true" } : {}) });
}

function open(Client: typeof RFB, place: HTMLElement, path: string, view: boolean, say: (state: State) => void): RFB | null {
  const socket = connect(path, ["binary"]);
  if (!socket) {
    say(FULL);
    return null;
  }
  const screen = new Client(place, socket);
  screen.viewOnly = view;
  screen.scaleViewport = true;
  let connected = false;
  screen.addEventListener("connect", () => {
    connected = true;
    say({ said: "", refused: false });
    screen.focus({ preventScroll: true });
  });
  screen.addEventListener("disconnect", () => (connected ? say({ said: "The connection has ended.", refused: false }) : void refusal(path).then((said) => say({ said, refused: true }))));
  screen.addEventListener("securityfailure", () => say({ said: "The screen asks for a password, which no machine here does.", refused: true }));
  return screen;
}
