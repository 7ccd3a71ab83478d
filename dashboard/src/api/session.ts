// The user's session: a bearer token in this tab's memory or its session storage, never in a cookie.
import { effect, signal } from "@preact/signals";

export interface Session {
  token: string;
  namespace: string;
  server: string;
  /** The moment at which the token expires, in milliseconds of this browser's clock; absent: not known. */
  expires?: number;
  /** The provider that the user signed in at. */
  provider?: SignedOut;
}

export interface SignedOut {
  issuer: string;
  /** The provider's own page to sign out; may be empty. */
  endSession: string;
}

const KEPT = "tarmac-session";
const LEFT = "tarmac-signed-out";
const LONGEST = 2 ** 31 - 1; // of a timer, in milliseconds

/** The present session; null asks for a token. */
export const session = signal<Session | null>(kept());
/** The reason for asking for a token, shown above the field. */
export const refused = signal("");

/** Set on the page that follows a sign-out of a provider. */
export const signedOut = taken<SignedOut>(LEFT);

// An expired token would show as lists that stand still: their watches stay open.
effect(() => {
  const expires = session.value?.expires;
  if (!expires) return undefined;
  const timer = setTimeout(() => end("Your sign-in has expired. Sign in again: the view and your drafts are still here."), Math.min(expires - Date.now(), LONGEST));
  return () => clearTimeout(timer);
});

function kept(): Session | null {
  return read<Session>(KEPT);
}

function read<T>(name: string): T | null {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null") as T | null;
  } catch {
    return null;
  }
}

/** Read a note of the page before this one and remove it, so that it counts once. */
export function taken<T>(name: string): T | null {
  const found = read<T>(name);
  sessionStorage.removeItem(name);
  return found;
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

/** Sign out: load the page anew, so that nothing of this user stays in memory. */
export function signOut(): void {
  const provider = session.value?.provider;
  sessionStorage.removeItem(KEPT);
  if (provider) sessionStorage.setItem(LEFT, JSON.stringify(provider));
  history.replaceState(null, "", location.pathname + "#/planet");
  location.reload();
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
