// A shell in a container, over the exec subresource. The terminal is loaded only here.
import { useEffect, useRef, useState } from "preact/hooks";
import { connect, refusal } from "../api/sockets.ts";
import { visible } from "../logic/text.ts";
import { INPUT, PROTOCOL, STATUS, ending, send, sendSize } from "../parts/channels.ts";
import { makeTerminal } from "../parts/terminal.ts";

export function Shell({ pod }: { pod: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState("Connecting…");
  const [tries, setTries] = useState(0);
  useEffect(() => {
    setState("Connecting…");
    let over = false;
    let end = () => {};
    if (place.current) void open(place.current, pod, setState).then((made) => (over ? made() : (end = made)));
    return () => {
      over = true;
      end();
    };
  }, [pod, tries]);
  return (
    <>
      {state && <p class="muted" role="status">{visible(state)} {state !== "Connecting…" && <button type="button" onClick={() => setTries(tries + 1)}>Connect again</button>}</p>}
      <div class="console" ref={place} />
      <p class="muted">Every key goes to the terminal; Ctrl-] gives the focus back.</p>
    </>
  );
}

async function open(place: HTMLElement, pod: string, say: (text: string) => void): Promise<() => void> {
  const { terminal, end } = await makeTerminal(place);
  const path = `${pod}/exec?command=/bin/sh&stdin=true&stdout=true&tty=true`;
  const socket = connect(path, [PROTOCOL]);
  if (!socket) {
    say("This page has as many streams open as it may.");
    return end;
  }
  let opened = false;
  let ended = "The connection was lost.";
  socket.onopen = () => {
    opened = true;
    say("");
    sendSize(socket, terminal);
    terminal.focus();
  };
  socket.onmessage = (message) => {
    const bytes = new Uint8Array(message.data as ArrayBuffer);
    if (bytes[0] === STATUS) ended = ending(new TextDecoder().decode(bytes.subarray(1)), "The shell has ended.");
    else terminal.write(bytes.subarray(1));
  };
  socket.onclose = () => (opened ? say(ended) : void refusal(path).then(say));
  terminal.onData((text) => send(socket, INPUT, text));
  terminal.onResize((size) => sendSize(socket, size));
  return () => {
    socket.onclose = null;
    socket.close();
    end();
  };
}
