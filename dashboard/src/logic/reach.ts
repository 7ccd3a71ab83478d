// The network question: does A reach B at a port? Its words in a link, as a request, and as a command line.
import { word } from "./text.ts";

export interface Question {
  /** `NAMESPACE/NAME` of an instance, or `pod/NAMESPACE/NAME`. */
  from: string;
  to: string;
  port: string;
  protocol: string;
  both: boolean;
}

export const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;

interface Sender {
  kind: "instance" | "pod";
  namespace: string;
  name: string;
}

/** The question that a link holds; names without a namespace are of `namespace`. */
export function questionOf(query: URLSearchParams, namespace: string, from = ""): Question {
  const sender = query.get("from") || from;
  return {
    from: sender && !sender.includes("/") ? `${namespace}/${sender}` : sender, to: query.get("to") ?? "", port: query.get("port") ?? "",
    protocol: (query.get("protocol") ?? "TCP").toUpperCase(), both: query.get("both") === "true",
  };
}

/** The same as the query of a link, without defaults. */
export function queryOf(question: Question): Record<string, string> {
  const { from, to, port, protocol, both } = question;
  return { from, to, port, protocol: protocol === "TCP" ? "" : protocol, both: both ? "true" : "" };
}

/** The missing part of the question; empty when it is complete. */
export function missing(question: Question): string {
  if (!senderOf(question.from)) return "Choose a source: NAMESPACE/NAME of an instance, or pod/NAMESPACE/NAME.";
  if (!question.to) return "Choose a target: an instance, pod/…, service/…, externalservice/… or an address.";
  return question.port ? "" : "Choose a port: a number, or a name of the target.";
}

/** The path below which `why` answers; empty while something is missing. */
export function whyOf(question: Question, compute: string): string {
  const sender = senderOf(question.from);
  if (!sender || missing(question)) return "";
  const [base, plural] = sender.kind === "pod" ? ["/api/v1", "pods"] : [compute, "instances"];
  const asked = new URLSearchParams({ reach: question.to, port: question.port, protocol: question.protocol, ...(question.both ? { both: "true" } : {}) });
  return `${base}/namespaces/${encodeURIComponent(sender.namespace)}/${plural}/${encodeURIComponent(sender.name)}/why?${asked}`;
}

/** The same on a command line. */
export function commandOf(question: Question): string {
  const sender = senderOf(question.from);
  const target = /^[0-9a-f]*:[0-9a-f:.]*$/i.test(question.to) ? `[${question.to}]` : question.to || "TARGET";
  const protocol = question.protocol === "TCP" ? "" : `/${question.protocol.toLowerCase()}`;
  const words = sender ? `${sender.kind}/${word(sender.name)} -n ${word(sender.namespace)}` : "instance/NAME";
  return `tarmac why ${words} --reach ${word(`${target}:${question.port || "PORT"}${protocol}`)}${question.both ? " --both" : ""}`;
}

function senderOf(from: string): Sender | null {
  const parts = from.split("/");
  const kind = parts.length === 3 ? parts.shift() : "instance";
  const [namespace, name] = parts;
  if ((kind !== "instance" && kind !== "pod") || parts.length !== 2 || !namespace || !name) return null;
  return { kind, namespace, name };
}
