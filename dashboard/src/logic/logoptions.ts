// Options of a log view, as in its link. The defaults suit most users.
import { word } from "./text.ts";

export const TAIL = 1000;
const LONG_TAIL = 10_000; // when a time was chosen: it is meant to be all of it, but not without end
const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600 };

export interface LogOptions {
  /** Empty: the only one there is. */
  container: string;
  /** As kubectl takes it: 5m. Empty: the newest lines, however old. */
  since: string;
  previous: boolean;
  follow: boolean;
  times: boolean;
  wrap: boolean;
  find: string;
}

export interface PodContainers {
  metadata?: { annotations?: Record<string, string> };
  spec?: { containers?: { name: string }[]; initContainers?: { name: string }[] };
}

/** The containers of a Pod, the default one first. */
export function containersOf(pod: PodContainers | null): string[] {
  const names = [...(pod?.spec?.containers ?? []), ...(pod?.spec?.initContainers ?? [])].map((each) => each.name);
  const first = pod?.metadata?.annotations?.["kubectl.kubernetes.io/default-container"] ?? "";
  return names.includes(first) ? [first, ...names.filter((each) => each !== first)] : names;
}

export function optionsOf(query: URLSearchParams, containers: readonly string[] = []): LogOptions {
  const previous = query.get("previous") === "true";
  return {
    container: query.get("c") ?? (containers.length > 1 ? (containers[0] ?? "") : ""),
    since: secondsOf(query.get("since") ?? "") ? (query.get("since") ?? "") : "",
    previous,
    follow: !previous && query.get("follow") !== "false", // an ended container cannot be followed
    times: query.get("times") === "true",
    wrap: query.get("wrap") !== "false",
    find: query.get("find") ?? "",
  };
}

/** The query of a link, without defaults. */
export function linked(options: LogOptions): Record<string, string> {
  return {
    c: options.container, since: options.since, previous: options.previous ? "true" : "", follow: options.follow || options.previous ? "" : "false",
    times: options.times ? "true" : "", wrap: options.wrap ? "" : "false", find: options.find,
  };
}

/** The query for the server. Always with times: a broken stream resumes by them. */
export function asked({ container, since, previous }: LogOptions): Record<string, string> {
  const seconds = secondsOf(since);
  return {
    ...(container ? { container } : {}), ...(previous ? { previous: "true" } : {}), timestamps: "true",
    ...(seconds ? { sinceSeconds: String(seconds) } : {}), tailLines: String(seconds ? LONG_TAIL : TAIL),
  };
}

export function commandOf(options: LogOptions, about: string): string {
  const flags = [
    options.container && `-c ${word(options.container)}`, options.since && `--since=${options.since}`,
    options.previous && "--previous", options.times && "--timestamps",
  ];
  return ["kubectl logs", options.follow && "-f", about, ...flags].filter(Boolean).join(" ");
}

function secondsOf(since: string): number {
  const found = /^(\d{1,7})([smh])$/.exec(since);
  return found ? Number(found[1]) * (SECONDS[found[2] ?? ""] ?? 0) : 0;
}
