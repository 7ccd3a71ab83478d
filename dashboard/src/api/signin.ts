// Signs the user in at an OpenID Connect provider: authorization code with PKCE. The page begins, the server redeems the
// code. State, nonce and verifier wait in this tab's session storage, and count once.
import { answered, authorizationUrl, type Pending, type Provider } from "../logic/signin.ts";
import { drafts } from "../state/drafts.ts";
import { json } from "./requests.ts";
import { begin, refused, session, taken } from "./session.ts";

const PENDING = "tarmac-sign-in";
const ENDPOINT = "/dashboard/sign-in";
const MINUTES = 15;

interface Waiting extends Pending {
  endSession: string;
  keep: boolean;
  view: string;
  drafts: [string, string][];
}

/** The providers of the server; none where it has none, as for `tarmac dashboard`. */
export async function providers(): Promise<Provider[]> {
  return json<{ providers: Provider[] }>(ENDPOINT).then((found) => found.providers, () => []);
}

/** Leave for the provider's page. `again`: it asks for the password although it remembers the user. */
export async function leaveFor(provider: Provider, keep: boolean, again: boolean): Promise<void> {
  const waiting: Waiting = {
    issuer: provider.issuer, namesItself: provider.namesItself, endSession: provider.endSessionEndpoint,
    state: random(), nonce: random(), verifier: random(), redirectUri: new URL(".", location.origin + location.pathname).href,
    until: Date.now() + MINUTES * 60_000, keep, view: location.hash, drafts: [...drafts.value],
  };
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(waiting.verifier));
  const url = authorizationUrl(provider, waiting, base64url(new Uint8Array(digest)), again);
  sessionStorage.setItem(PENDING, JSON.stringify(waiting));
  location.assign(url);
}

/** Finish a sign-in if the address is that of a return from the provider, and take the code out of the address. */
export async function enterByProvider(): Promise<void> {
  const query = new URLSearchParams(location.search);
  if (!query.has("state")) return;
  const waiting = taken<Waiting>(PENDING);
  history.replaceState(null, "", location.pathname + (waiting?.view || "#/planet"));
  if (session.value) return; // an address that a user is sent to must not end the session
  try {
    const code = answered(query, waiting, Date.now());
    if (!waiting) return;
    drafts.value = new Map(waiting.drafts);
    const { issuer, verifier, nonce, redirectUri } = waiting;
    const body = JSON.stringify({ issuer, code, verifier, nonce, redirectUri });
    const found = await json<{ token: string; seconds: number }>(ENDPOINT, { method: "POST", type: "application/json", body });
    const server = location.origin;
    begin({ token: found.token, namespace: "default", server, expires: Date.now() + found.seconds * 1000, provider: { issuer, endSession: waiting.endSession } }, waiting.keep);
  } catch (error) {
    refused.value = (error as Error).message;
  }
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
