import assert from "node:assert/strict";
import { test } from "node:test";
import { answered, authorizationUrl, type Pending, type Provider } from "./signin.ts";

const PENDING: Pending = { issuer: "https://id.example", namesItself: false, state: "s", nonce: "n", verifier: "v", redirectUri: "https://tarmac.example/dashboard/", until: 100 };
const PROVIDER: Provider = { issuer: "https://id.example", clientId: "tarmac", scope: "openid", authorizationEndpoint: "https://id.example/auth?tenant=1", endSessionEndpoint: "", namesItself: false };
const of = (text: string) => new URLSearchParams(text);

test("the address of the provider carries challenge, state and nonce, and never the verifier", () => {
  const url = new URL(authorizationUrl(PROVIDER, { ...PENDING, verifier: "secret-verifier" }, "digest", true));
  const asked = Object.fromEntries(url.searchParams);
  assert.deepEqual(asked, {
    tenant: "1", response_type: "code", client_id: "tarmac", redirect_uri: PENDING.redirectUri, scope: "openid", state: "s", nonce: "n",
    code_challenge: "digest", code_challenge_method: "S256", prompt: "login",
  });
});

test("a provider's page that is no https address is not opened", () => {
  for (const authorizationEndpoint of ["javascript:alert(1)//https://id.example", "http://id.example/auth", "data:text/html,x"]) {
    assert.throws(() => authorizationUrl({ ...PROVIDER, authorizationEndpoint }, PENDING, "digest", false), /no https address/);
  }
});

test("an answer counts for the sign-in that waits, of that provider, in time", () => {
  assert.equal(answered(of("state=s&code=c"), PENDING, 1), "c");
  assert.equal(answered(of("state=s&code=c&iss=https://id.example"), { ...PENDING, namesItself: true }, 1), "c");
  assert.throws(() => answered(of("state=s&code=c"), null, 1), /not started in this tab/);
  assert.throws(() => answered(of("state=other&code=c"), PENDING, 1), /not started in this tab/);
  assert.throws(() => answered(of("state=s&code=c"), PENDING, 101), /took too long/);
  assert.throws(() => answered(of("state=s&code=c&iss=https://evil.example"), PENDING, 1), /is of https:\/\/evil.example/);
  assert.throws(() => answered(of("state=s&code=c"), { ...PENDING, namesItself: true }, 1), /unnamed provider/);
  assert.throws(() => answered(of("state=s"), PENDING, 1), /sent no code/);
});

test("the provider's refusal is shown with its reason, cut", () => {
  assert.throws(() => answered(of("state=s&error=access_denied&error_description=You+may+not"), PENDING, 1), /id\.example: access_denied: You may not/);
  assert.throws(() => answered(of(`state=s&error=x&error_description=${"y".repeat(9000)}`), PENDING, 1), (error: Error) => error.message.length < 400);
});
