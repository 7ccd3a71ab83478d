// Requests to the API with the user's token. A rejection is a Failure with the server's whole Status.
import { end, session } from "./session.ts";

export class Failure extends Error {
  constructor(readonly code: number, message: string, readonly reason = "", readonly causes: Cause[] = [], readonly auditId = "") {
    super(message);
  }
}

export interface Cause {
  field?: string;
  message?: string;
  reason?: string;
}

interface Status {
  message?: string;
  reason?: string;
  details?: { causes?: Cause[] };
}

export interface Asked {
  method?: string;
  accept?: string;
  body?: string;
  type?: string;
  signal?: AbortSignal;
}

/** The text of an answer. `pretty=false`: the server indents for browsers otherwise. */
export async function text(path: string, asked: Asked = {}): Promise<string> {
  const headers: Record<string, string> = { authorization: `Bearer ${session.value?.token ?? ""}` };
  headers["accept"] = asked.accept ?? "application/json";
  if (asked.type) headers["content-type"] = asked.type;
  const url = `${path}${path.includes("?") ? "&" : "?"}pretty=false`;
  const answer = await fetch(url, {
    method: asked.method ?? "GET", headers, cache: "no-store",
    ...(asked.body === undefined ? {} : { body: asked.body }), ...(asked.signal ? { signal: asked.signal } : {}),
  });
  const said = await answer.text();
  if (answer.ok) return said;
  const failure = failureOf(answer.status, said, answer.headers.get("audit-id") ?? "");
  if (answer.status === 401) end(`The server does not accept the token: ${failure.message}`);
  throw failure;
}

/** Convert a thrown value to a Failure. */
export function failureIn(error: unknown): Failure {
  return error instanceof Failure ? error : new Failure(0, String(error));
}

export async function json<T>(path: string, asked: Asked = {}): Promise<T> {
  return JSON.parse(await text(path, asked)) as T;
}

export function failureOf(code: number, said: string, auditId = ""): Failure {
  try {
    const status = JSON.parse(said) as Status;
    return new Failure(code, status.message ?? said, status.reason, status.details?.causes ?? [], auditId);
  } catch {
    const message = /^message: (.+)$/m.exec(said)?.[1]; // of a Status in YAML, in answer to a request for YAML
    return new Failure(code, message ?? (said || `the server answered ${code}`), "", [], auditId);
  }
}
