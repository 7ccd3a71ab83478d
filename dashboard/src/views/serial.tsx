// The serial console of a virtual machine. A broken connection resumes at its last byte, so no output is lost or repeated.
// One client at a time has the keyboard; the other clients watch.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Terminal } from "@xterm/xterm";
import { connect, refusal } from "../api/sockets.ts";
import { BEGINNING, afterNotice, afterOutput, since, whose, type Notice, type Progress } from "../logic/serial.ts";
import { visible } from "../logic/text.ts";
import { INPUT, NOTICE, OUTPUT, PROTOCOL, STATUS, ending, send, sendSize } from "../parts/channels.ts";
import { Unavailable } from "../parts/states.tsx";
import { makeTerminal } from "../parts/terminal.ts";

const PATIENCE = 60_000;
const PAUSE = 1000;

interface Shown {
  state: string;
  progress: Progress;
  over: boolean;
  /** True if it was never open: there is no output to keep. */
  refused: boolean;
}

export function Serial({ instance, events }: { instance: string; events: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<Shown>({ state: "Connecting…", progress: BEGINNING, over: false, refused: false });
  const [how, setHow] = useState({ stdin: true, takeover: false, tries: 0 });
  useEffect(() => {
    let gone = false;
    let session: Session | null = null;
    const box = place.current;
    if (box) {
      void makeTerminal(box).then(({ terminal, end }) => {
        if (gone) return end();
        session = new Session(`${instance}/console`, how, terminal, end, setShown);
      });
    }
    return () => {
      gone = true;
      session?.leave();
    };
  }, [instance, how]);
  const { state, progress, over, refused } = shown;
  const again = () => setHow({ ...how, takeover: false, tries: how.tries + 1 });
  return (
    <>
      {refused && <Unavailable title="The console could not be opened." reason={state} again={again} name="Connect again" instead={{ href: events, name: "See its events" }} />}
      <p role="status" hidden={refused}>
        {state ? visible(state) : <>{progress.recorded ? <strong>● Recorded. </strong> : "Not recorded. "}{visible(`${whose(progress)} ${progress.said}`)}</>}
      </p>
      <div class="console" hidden={refused} ref={place} />
      <p hidden={refused}>
        {over && <button type="button" onClick={again}>Connect again</button>}{" "}
        {!over && !progress.keyboard && <button type="button" onClick={() => setHow({ stdin: true, takeover: true, tries: how.tries + 1 })}>Take the keyboard</button>}{" "}
        {!over && how.stdin && <button type="button" onClick={() => setHow({ stdin: false, takeover: false, tries: how.tries + 1 })}>Only watch</button>}
      </p>
      <p class="muted" hidden={refused}>Every key goes to the machine; Ctrl-] gives the focus back.</p>
    </>
  );
}

class Session {
  private progress = BEGINNING;
  private socket: WebSocket | null = null;
  private ended = "";
  private left = false;
  private timer = 0;
  private lostAt = 0;
  private readonly decoder = new TextDecoder();

  constructor(
    private readonly path: string,
    private readonly how: { stdin: boolean; takeover: boolean },
    private readonly terminal: Terminal,
    private readonly end: () => void,
    private readonly show: (shown: Shown) => void,
  ) {
    terminal.onData((text) => this.socket && send(this.socket, INPUT, text));
    terminal.onResize((size) => this.socket && sendSize(this.socket, size));
    this.open();
  }

  leave(): void {
    this.left = true;
    clearTimeout(this.timer);
    this.socket?.close();
    this.end();
  }

  private url(): string {
    const query = new URLSearchParams(this.how.stdin ? { stdin: "true" } : {});
    // Once: a reconnect must not take the keyboard from the client that has it now.
    if (this.how.takeover && !since(this.progress)) query.set("takeover", "true");
    if (since(this.progress)) query.set("since", since(this.progress));
    return `${this.path}?${query}`;
  }

  private open(): void {
    const url = this.url();
    const socket = connect(url, [PROTOCOL]);
    if (!socket) return this.tell("This page has as many streams open as it may.", true, true);
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.lostAt = 0;
      this.tell("");
      sendSize(socket, this.terminal);
      this.terminal.focus();
    };
    socket.onmessage = (message) => this.take(new Uint8Array(message.data as ArrayBuffer));
    socket.onclose = () => {
      if (this.left) return;
      if (this.ended) return this.tell(this.ended, true);
      if (opened || since(this.progress)) return void this.again(url);
      void refusal(url).then((why) => this.tell(why, true, true));
    };
  }

  private take(message: Uint8Array): void {
    const body = message.subarray(1);
    if (message[0] === OUTPUT) {
      this.progress = afterOutput(this.progress, body.length);
      this.terminal.write(body);
    } else if (message[0] === NOTICE) {
      this.progress = afterNotice(this.progress, JSON.parse(this.decoder.decode(body)) as Notice);
      this.tell("");
    } else if (message[0] === STATUS) {
      this.ended = ending(this.decoder.decode(body), "The session has ended.");
    }
  }

  private async again(url: string): Promise<void> {
    this.lostAt ||= Date.now();
    if (Date.now() - this.lostAt > PATIENCE) {
      const why = await refusal(url);
      if (!this.left) this.tell(`The connection was lost: ${why}`, true);
      return;
    }
    this.tell("The connection was lost; connecting again.");
    this.timer = window.setTimeout(() => this.open(), PAUSE);
  }

  private tell(state: string, over = false, refused = false): void {
    this.show({ state, progress: this.progress, over, refused });
  }
}
