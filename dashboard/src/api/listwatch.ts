// A live list: pages of a Table first, then a watch over a WebSocket from where the list ended.
//
// A broken watch resumes from its last revision, after half a second, doubling to thirty. If that revision is compacted, a
// new list replaces the rows in one step. Changes are applied in the next frame, and ten times a second while more arrive:
// a rollout would otherwise cost a layout and a repaint of the table in every frame. A page hidden for thirty seconds closes
// its watch and resumes it when it is visible again. There is one watch at a time: the slower one of two would bring back
// rows that the other one has removed.
import { signal } from "@preact/signals";
import { byName, Ordered } from "../logic/ordered.ts";
import { connect } from "./sockets.ts";
import { Failure, failureIn, json } from "./requests.ts";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PAGE = 500;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 30_000;
const HIDDEN = 30_000;
const REST = 100;

export interface Column {
  name: string;
  type: string;
  format: string;
  priority: number;
}

export interface Row {
  uid: string;
  namespace: string;
  name: string;
  labels: Record<string, string>;
  created: string;
  cells: unknown[];
}

interface Meta {
  uid?: string;
  name?: string;
  namespace?: string;
  labels?: Record<string, string>;
  creationTimestamp?: string;
  resourceVersion?: string;
}

interface Table {
  columnDefinitions?: Column[] | null;
  rows?: { cells: unknown[]; object: { metadata: Meta } }[] | null;
  metadata?: { resourceVersion?: string; continue?: string };
}

interface Event {
  type: string;
  object: Table & { code?: number; message?: string };
}

export class LiveList {
  /** In the order of the server: by namespace, then by name. */
  readonly rows = signal<readonly Row[]>([]);
  readonly columns = signal<Column[]>([]);
  readonly failure = signal<Failure | null>(null);
  readonly loaded = signal(false);
  /** The time since which the rows may be stale; 0 while they are current. */
  readonly staleSince = signal(0);

  private readonly next = new Ordered<Row>(byName);
  private revision = "";
  private socket: WebSocket | null = null;
  private pause = FIRST_PAUSE;
  private timer = 0;
  private frame = 0;
  /** The timer before which no further change is applied. */
  private rest = 0;
  private isChanged = false;
  private stopped = false;
  private listing = false;
  private hiding = 0;
  private readonly seen = () => this.onVisibility();

  /** `otherwise` is requested if the server does not serve `path`: a cluster-scoped kind has no list in a namespace. */
  constructor(private path: string, private readonly query: Record<string, string> = {}, private readonly otherwise = path) {
    document.addEventListener("visibilitychange", this.seen);
    void this.list();
  }

  /** True without a selector. */
  get isWhole(): boolean {
    return Object.keys(this.query).length === 0;
  }

  stop(): void {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.timer);
    clearTimeout(this.hiding);
    clearTimeout(this.rest);
    cancelAnimationFrame(this.frame);
    this.socket?.close();
  }

  private url(more: Record<string, string>): string {
    return `${this.path}?${new URLSearchParams({ ...this.query, includeObject: "Metadata", ...more })}`;
  }

  private async list(): Promise<void> {
    this.listing = true;
    try {
      const found = new Map<string, Row>();
      let token = "";
      do {
        const page = await json<Table>(this.url({ limit: String(PAGE), ...(token ? { continue: token } : {}) }), { accept: TABLE });
        if (this.stopped) return;
        if (page.columnDefinitions?.length) this.columns.value = page.columnDefinitions;
        for (const [key, row] of rowsOf(page)) found.set(key, row);
        token = page.metadata?.continue ?? "";
        this.revision = page.metadata?.resourceVersion ?? "";
      } while (token);
      this.next.replace(found);
      this.failure.value = null;
      this.loaded.value = true;
      this.publish();
      this.listing = false;
      this.watch();
    } catch (error) {
      this.listing = false;
      if (this.stopped) return;
      if (error instanceof Failure && error.code === 404 && this.path !== this.otherwise) {
        this.path = this.otherwise;
        return this.list();
      }
      if (isFinal(error)) return this.refuse(failureIn(error));
      if (this.loaded.value) this.staleSince.value ||= Date.now();
      else this.failure.value = failureIn(error);
      this.again(() => void this.list());
    }
  }

  /** A list that the user may not read, or no longer: the reason replaces the rows, without retries. */
  private refuse(failure: Failure): void {
    this.next.replace(new Map());
    this.publish();
    this.failure.value = failure;
    this.loaded.value = false;
    this.staleSince.value = 0;
  }

  private watch(): void {
    if (this.stopped || this.socket || document.hidden) return;
    clearTimeout(this.timer);
    const query = { watch: "1", as: "Table", allowWatchBookmarks: "true", resourceVersion: this.revision };
    const socket = connect(this.url(query), ["watch.k8s.io"]); // any name: a browser wants one to be chosen
    if (!socket) return this.again(() => this.watch());
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.pause = FIRST_PAUSE;
      this.staleSince.value = 0;
    };
    socket.onmessage = (message) => {
      if (this.socket === socket) this.onEvent(JSON.parse(message.data as string) as Event);
    };
    socket.onclose = () => {
      if (this.socket !== socket || this.stopped) return;
      this.socket = null;
      this.staleSince.value ||= Date.now();
      if (!document.hidden) this.again(() => (opened ? this.watch() : void this.ask()));
    };
  }

  /** Browsers hide the reason of a rejected watch, so one row is requested: its rejection ends the list. */
  private async ask(): Promise<void> {
    try {
      await json(this.url({ limit: "1" }), { accept: TABLE });
      this.watch();
    } catch (error) {
      if (this.stopped) return;
      if (isFinal(error)) this.refuse(failureIn(error));
      else this.again(() => void this.ask());
    }
  }

  private onEvent(event: Event): void {
    if (event.type === "ERROR") {
      this.socket?.close();
      this.socket = null;
      this.staleSince.value ||= Date.now();
      if (event.object.code === 410) void this.list();
      else this.again(() => void this.list());
      return;
    }
    const meta = event.object.rows?.[0]?.object.metadata;
    this.revision = meta?.resourceVersion ?? event.object.metadata?.resourceVersion ?? this.revision;
    if (event.type === "BOOKMARK") return;
    for (const [key, row] of rowsOf(event.object)) {
      if (event.type === "DELETED") this.next.delete(key);
      else this.next.set(key, row);
    }
    this.isChanged = true;
    this.apply();
  }

  private apply(): void {
    if (this.frame || this.rest || !this.isChanged) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.publish();
      this.rest = window.setTimeout(() => {
        this.rest = 0;
        this.apply();
      }, REST);
    });
  }

  private publish(): void {
    this.isChanged = false;
    this.rows.value = this.next.inOrder();
  }

  private again(what: () => void): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(what, this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  private onVisibility(): void {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = window.setTimeout(() => this.socket?.close(), HIDDEN);
    } else if (!this.socket && this.loaded.value && !this.listing) {
      this.pause = FIRST_PAUSE;
      this.watch();
    }
  }
}

/** A missing permission is not retried; an unavailable server is. */
function isFinal(error: unknown): boolean {
  return error instanceof Failure && error.code >= 400 && error.code < 500 && error.code !== 429;
}

/** The rows of a Table that the page keeps, by uid. */
function rowsOf(table: Table): [string, Row][] {
  return (table.rows ?? []).map(({ cells, object: { metadata: meta } }) => {
    const { namespace = "", name = "", labels = {}, creationTimestamp: created = "" } = meta;
    const uid = meta.uid ?? `${namespace}/${name}`;
    return [uid, { uid, namespace, name, labels, created, cells }];
  });
}
