// The current namespace: a choice of the existing ones, or a field if they may not be listed.
import { visible } from "../logic/text.ts";
import { choose, namespace, namespaces } from "../state/namespace.ts";

export function Namespaces() {
  const known = namespaces.value;
  if (known === undefined) return null;
  const chosen = namespace.value;
  if (known === null) {
    return <label><span>Namespace</span> <input value={chosen} size={16} spellcheck={false} autocomplete="off" onChange={(event) => choose(event.currentTarget.value.trim())} /></label>;
  }
  return (
    <label><span>Namespace</span> <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
      <option value="">all</option>
      {[...new Set([...(chosen ? [chosen] : []), ...known])].sort().map((each) => <option key={each} value={each}>{visible(each)}</option>)}
    </select></label>
  );
}
