// A container's log, followed over a WebSocket or read once. A broken connection is retried after a second, doubling
// to thirty, from the last line received; a rejection ends it with the reason.
import { LogLines } from "../logic/loglines.ts";
import { Failure, text } from "./requests.ts";
import { connect } from "./sockets.ts";

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;
const OFTEN = 100; // milliseconds between two deliveries of received lines
const FINISHED = 1000; // the close code of a WebSocket that ended normally

export interface LogState {
  said: string;
  /** True if no more output arrives without a new request. */
  over: boolean;
  /** True if it was refused, or could not be read. */
  failed: boolean;
}

export class LogStream {
  readonly lines = new LogLines();
  private socket: WebSocket | null = null;
  private pause = FIRST_PAUSE;
  private retry = 0;
  private look = 0;
  private left = false;

  constructor(
    private readonly path: string, private readonly query: Record<string, string>, private readonly follow: boolean,
    private readonly tell: (state: LogState | null) => void,
  ) {
    if (follow) this.open();
    else void this.once();
  }

  leave(): void {
    this.left = true;
    clearTimeout(this.retry);
    clearTimeout(this.look);
    this.socket?.close();
  }

  private url(follow: boolean): string {
    const { tailLines = "", sinceSeconds = "", ...rest } = this.query;
    const from: Record<string, string> = this.lines.since ? { sinceTime: this.lines.since } : { tailLines, ...(sinceSeconds ? { sinceSeconds } : {}) };
    return `${this.path}?${new URLSearchParams({ ...rest, ...from, ...(follow ? { follow: "true" } : {}) })}`;
  }

  private open(): void {
    this.lines.again();
    const socket = connect(this.url(true), ["binary.k8s.io"]);
    if (!socket) return this.tell({ said: "This page has as many streams open as it may: close another tab of logs.", over: true, failed: true });
    this.socket = socket;
    const decoder = new TextDecoder();
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.pause = FIRST_PAUSE;
      this.tell({ said: "", over: false, failed: false });
    };
    socket.onmessage = (message) => this.take(decoder.decode(message.data as ArrayBuffer, { stream: true }));
    socket.onclose = ({ code }) => {
      if (this.left) return;
      if (opened && code === FINISHED) this.tell({ said: "The log has ended.", over: true, failed: false });
      else if (opened) this.again();
      else void this.once(); // browsers hide the reason of a rejected WebSocket, so repeat the request without one
    };
  }

  private async once(): Promise<void> {
    const resumed = this.lines.since !== "";
    try {
      this.lines.again();
      const found = await text(this.url(false), { accept: "*/*" });
      if (this.left) return;
      this.take(found);
      this.tell({ said: this.follow ? "This is the log of this moment; it could not be followed." : "", over: true, failed: false });
    } catch (error) {
      if (this.left) return;
      const passing = !(error instanceof Failure) || error.code >= 500 || error.code === 429;
      // A first read reports its failure at once: the user waits for it. Later failures are retried.
      if (resumed && this.follow && passing) this.again();
      else this.tell({ said: (error as Error).message, over: true, failed: true });
    }
  }

  private again(): void {
    this.tell({ said: "The connection was lost; connecting again.", over: false, failed: false });
    this.retry = window.setTimeout(() => this.open(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  private take(chunk: string): void {
    this.lines.take(chunk);
    this.look ||= window.setTimeout(() => {
      this.look = 0;
      this.tell(null);
    }, OFTEN);
  }
}
