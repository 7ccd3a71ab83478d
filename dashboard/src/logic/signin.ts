// The parts of a sign-in at an OpenID Connect provider that need no browser.

export interface Provider {
  issuer: string;
  clientId: string;
  scope: string;
  authorizationEndpoint: string;
  endSessionEndpoint: string;
  /** True if the provider names itself in its answers (RFC 9207). */
  namesItself: boolean;
}

export interface Pending {
  issuer: string;
  namesItself: boolean;
  state: string;
  nonce: string;
  verifier: string;
  redirectUri: string;
  /** The moment after which the answer comes too late. */
  until: number;
}

/** The address of the provider's page. Throws unless it is one of https. */
export function authorizationUrl(provider: Provider, pending: Pending, challenge: string, again: boolean): string {
  const url = new URL(provider.authorizationEndpoint);
  if (url.protocol !== "https:") throw new Error(`${provider.issuer}: its sign-in page is no https address`);
  const asked = {
    response_type: "code", client_id: provider.clientId, redirect_uri: pending.redirectUri, scope: provider.scope,
    state: pending.state, nonce: pending.nonce, code_challenge: challenge, code_challenge_method: "S256",
    ...(again ? { prompt: "login" } : {}),
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  return url.href;
}

/** The code in a provider's answer to the sign-in that waits in this tab. Throws an Error with the user's next step. */
export function answered(query: URLSearchParams, pending: Pending | null, now: number): string {
  if (!pending || query.get("state") !== pending.state) throw new Error("This sign-in was not started in this tab, or its address was used before. Sign in again.");
  if (now > pending.until) throw new Error("This sign-in took too long. Sign in again.");
  const issuer = query.get("iss") ?? (pending.namesItself ? "" : pending.issuer);
  if (issuer !== pending.issuer) throw new Error(`The answer is of ${issuer || "an unnamed provider"}, not of ${pending.issuer}. Sign in again.`); // another provider must not get this code (mix-up)
  const error = query.get("error");
  if (error) throw new Error(`${pending.issuer}: ${[error, query.get("error_description")].filter(Boolean).join(": ").slice(0, 300)}`);
  const code = query.get("code");
  if (!code) throw new Error(`${pending.issuer} sent no code. Sign in again.`);
  return code;
}
