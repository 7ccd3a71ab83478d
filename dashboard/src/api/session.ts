// The user's session: a bearer token in this tab's memory or its session storage, never in a cookie.
import { signal } from "@preact/signals";

export interface Session {
  token: string;
  namespace: string;
  server: string;
}

const KEPT = "tarmac-session";

/** The present session; null asks for a token. */
export const session = signal<Session | null>(kept());
/** The reason for asking for a token, shown above the field. */
export const refused = signal("");

function kept(): Session | null {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as Session | null;
  } catch {
    return null;
  }
}

export function begin(made: Session, keep: boolean): void {
  if (keep) sessionStorage.setItem(KEPT, JSON.stringify(made));
  refused.value = "";
  session.value = made;
}

export function end(why: string): void {
  sessionStorage.removeItem(KEPT);
  refused.value = why;
  session.value = null;
}

/** Exchange the code in the address for a session, and take it out of the address. */
export async function enterByCode(): Promise<void> {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (!code) return;
  history.replaceState(null, "", location.pathname + "#/planet");
  const answer = await fetch("session", {
    method: "POST", body: JSON.stringify({ code }), headers: { "content-type": "application/json" },
  });
  const said = (await answer.json()) as Session & { message?: string };
  if (answer.ok) begin(said, true);
  else end(said.message ?? `the code was refused (${answer.status})`);
}
