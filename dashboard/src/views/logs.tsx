// A Pod's log, followed over a WebSocket. The newest lines are kept; control characters are shown, not obeyed.
import { useEffect, useRef, useState } from "preact/hooks";
import { text } from "../api/requests.ts";
import { connect } from "../api/sockets.ts";
import { visible } from "../logic/text.ts";

const MOST = 500_000; // characters
const TAIL = 1000;

export function Logs({ pod }: { pod: string }) {
  const [said, setSaid] = useState("");
  const [state, setState] = useState("Connecting…");
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const query = `tailLines=${TAIL}`;
    const socket = connect(`${pod}/log?follow=true&${query}`, ["binary.k8s.io"]);
    if (!socket) {
      setState("This page has as many streams open as it may: close another tab of logs.");
      return;
    }
    const decoder = new TextDecoder();
    let opened = false;
    socket.onopen = () => {
      opened = true;
      setState("");
    };
    socket.onmessage = (message) => setSaid((old) => (old + decoder.decode(message.data as ArrayBuffer, { stream: true })).slice(-MOST));
    socket.onclose = () => {
      if (opened) return setState("The log has ended.");
      // A browser does not tell why a WebSocket was refused, so the same is asked once without one.
      text(`${pod}/log?${query}`, { accept: "*/*" }).then(setSaid, (error: Error) => setState(error.message));
    };
    return () => socket.close();
  }, [pod]);
  useEffect(() => {
    const made = box.current;
    if (made) made.scrollTop = made.scrollHeight;
  }, [said]);
  return (
    <>
      {state && <p class="muted" role="status">{visible(state)}</p>}
      <pre class="text log" ref={box} tabIndex={0} aria-label="Log">{visible(said, true)}</pre>
    </>
  );
}
