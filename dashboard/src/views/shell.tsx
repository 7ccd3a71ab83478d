// A shell in a container, over the exec subresource. The terminal is loaded only here.
import { useEffect, useRef, useState } from "preact/hooks";
import { connect, refusal } from "../api/sockets.ts";
import { visible } from "../logic/text.ts";
import { INPUT, PROTOCOL, STATUS, ending, send, sendSize } from "../parts/channels.ts";
import { Unavailable } from "../parts/states.tsx";
import { makeTerminal } from "../parts/terminal.ts";

interface State {
  said: string;
  /** True if it was never open: there is no output to keep. */
  refused: boolean;
}

const CONNECTING: State = { said: "Connecting…", refused: false };

export function Shell({ pod, logs }: { pod: string; logs: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState(CONNECTING);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    setState(CONNECTING);
    let over = false;
    let end = () => {};
    if (place.current) void open(place.current, pod, setState).then((made) => (over ? made() : (end = made)));
    return () => {
      over = true;
      end();
    };
  }, [pod, tries]);
  const { said, refused } = state;
  const again = () => setTries(tries + 1);
  return (
    <>
      {refused && <Unavailable title="The terminal could not be opened." reason={said} again={again} name="Connect again" instead={{ href: logs, name: "Read its log" }} />}
      {said && !refused && <p class="muted" role="status">{visible(said)} {state !== CONNECTING && <button type="button" onClick={again}>Connect again</button>}</p>}
      <div class="console" hidden={refused} ref={place} />
      {!refused && <p class="muted">Every key goes to the terminal; Ctrl-] gives the focus back.</p>}
    </>
  );
}

async function open(place: HTMLElement, pod: string, say: (state: State) => void): Promise<() => void> {
  const { terminal, end } = await makeTerminal(place);
  const path = `${pod}/exec?command=/bin/sh&stdin=true&stdout=true&tty=true`;
  const socket = connect(path, [PROTOCOL]);
  if (!socket) {
    say({ said: "This page has as many streams open as it may.", refused: true });
    return end;
  }
  let opened = false;
  let ended = "The connection was lost.";
  socket.onopen = () => {
    opened = true;
    say({ said: "", refused: false });
    sendSize(socket, terminal);
    terminal.focus();
  };
  socket.onmessage = (message) => {
    const bytes = new Uint8Array(message.data as ArrayBuffer);
    if (bytes[0] === STATUS) ended = ending(new TextDecoder().decode(bytes.subarray(1)), "The shell has ended.");
    else terminal.write(bytes.subarray(1));
  };
  socket.onclose = () => (opened ? say({ said: ended, refused: false }) : void refusal(path).then((said) => say({ said, refused: true })));
  terminal.onData((text) => send(socket, INPUT, text));
  terminal.onResize((size) => sendSize(socket, size));
  return () => {
    socket.onclose = null;
    socket.close();
    end();
  };
}
