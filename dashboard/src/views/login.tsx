// Signs the user in: at a provider of the server where it has one, else by a token. The token stays in memory or, on
// request, in this tab.
import { useEffect, useState } from "preact/hooks";
import { begin, refused, signedOut } from "../api/session.ts";
import { leaveFor, providers } from "../api/signin.ts";
import type { Provider } from "../logic/signin.ts";
import { visible } from "../logic/text.ts";
import { Logo } from "../parts/icons.tsx";

export function Login() {
  const [keep, setKeep] = useState(false);
  const [found, setFound] = useState<Provider[] | null>(null);
  useEffect(() => void providers().then(setFound), []);
  return (
    <main class="login">
      <h1><Logo /> Tarmac</h1>
      {refused.value && <p class="failed" role="alert">{visible(refused.value)}</p>}
      <SignedOut />
      {found?.map((each) => <ProviderButton key={each.issuer} provider={each} keep={keep} />)}
      {found && (found.length ? <details><summary>Use a token instead</summary><TokenForm keep={keep} /></details> : <TokenForm keep={keep} />)}
      {found && <label class="keep"><input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} /> Keep for this tab</label>}
      <p class="muted">Or run <code>tarmac dashboard</code> on your own computer: it uses your kubeconfig.</p>
    </main>
  );
}

function ProviderButton({ provider, keep }: { provider: Provider; keep: boolean }) {
  const leave = () => leaveFor(provider, keep, signedOut !== null).catch((error: Error) => (refused.value = error.message));
  return <button type="button" class="primary" onClick={() => void leave()}>Sign in with {visible(new URL(provider.issuer).host)}</button>;
}

function SignedOut() {
  if (!signedOut) return null;
  const { issuer, endSession } = signedOut;
  return (
    <p role="status">
      You are signed out of this page. {visible(issuer)} may still remember you
      {endSession.startsWith("https:") ? <>: <a href={endSession} rel="noopener noreferrer">sign out there, too</a>.</> : "."}
    </p>
  );
}

function TokenForm({ keep }: { keep: boolean }) {
  const [token, setToken] = useState("");
  const enter = (event: Event) => {
    event.preventDefault();
    begin({ token: token.trim(), namespace: "default", server: location.origin }, keep);
  };
  // A token is one line, in a box of several since it is long.
  const pressed = (event: KeyboardEvent & { currentTarget: HTMLTextAreaElement }) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    event.currentTarget.form?.requestSubmit();
  };
  return (
    <form onSubmit={enter}>
      <label for="token">A token: of a service account (<code>kubectl create token NAME</code>) or of your identity provider</label>
      <textarea id="token" rows={4} required autocomplete="off" spellcheck={false} value={token} onKeyDown={pressed} onInput={(event) => setToken(event.currentTarget.value)} />
      <button type="submit">Sign in</button>
    </form>
  );
}
