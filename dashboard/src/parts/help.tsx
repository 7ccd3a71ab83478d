// The keys, and the preferences of the user.
import { HELP } from "../logic/keys.ts";
import { letters } from "../state/preferences.ts";
import { Dialog } from "./dialog.tsx";

export function Help({ views, closed }: { views: readonly (readonly [string, string, string])[]; closed: () => void }) {
  const rows = [...HELP, ...views.map(([, name, letter]) => [`g ${letter}`, name] as const)];
  return (
    <Dialog title="Keys" closed={closed}>
      <table>
        <thead><tr><th scope="col">Key</th><th scope="col">Does</th></tr></thead>
        <tbody>{rows.map(([keys, does]) => <tr key={keys}><th scope="row"><kbd>{keys}</kbd></th><td>{does}</td></tr>)}</tbody>
      </table>
      <p><label><input type="checkbox" checked={letters.value} onChange={(event) => (letters.value = event.currentTarget.checked)} /> Enable single-key shortcuts</label></p>
      <button type="button" onClick={closed}>Close</button>
    </Dialog>
  );
}
