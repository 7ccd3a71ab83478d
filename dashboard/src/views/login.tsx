// Asks for a token, kept in memory or, on request, for this tab.
import { useState } from "preact/hooks";
import { begin, refused } from "../api/session.ts";
import { visible } from "../logic/text.ts";

export function Login() {
  const [token, setToken] = useState("");
  const [keep, setKeep] = useState(false);
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
    <main class="login">
      <h1>Tarmac</h1>
      {refused.value && <p class="failed" role="alert">{visible(refused.value)}</p>}
      <form onSubmit={enter}>
        <label for="token">A token: of a service account (<code>kubectl create token NAME</code>) or of your identity provider</label>
        <textarea id="token" rows={4} required autocomplete="off" spellcheck={false} value={token} onKeyDown={pressed} onInput={(event) => setToken(event.currentTarget.value)} />
        <label><input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} /> Keep for this tab</label>
        <button type="submit" class="primary">Sign in</button>
      </form>
      <p class="muted">Or run <code>tarmac dashboard</code> on your own computer: it uses your kubeconfig.</p>
    </main>
  );
}
