// An object as the server writes it.
import { useEffect, useState } from "preact/hooks";
import { Failure, failureIn, text } from "../api/requests.ts";
import { visible } from "../logic/text.ts";
import { Failed, Loading } from "../parts/states.tsx";

const LONGEST = 100_000;

export function YamlText({ path }: { path: string }) {
  const [found, setFound] = useState<string | Failure | null>(null);
  const [all, setAll] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    text(path, { accept: "application/yaml", signal: abort.signal }).then(setFound).catch((error: unknown) => {
      if (!abort.signal.aborted) setFound(failureIn(error));
    });
    return () => abort.abort();
  }, [path]);
  if (found === null) return <Loading />;
  if (found instanceof Failure) return <Failed failure={found} />;
  return (
    <>
      <pre class="text" tabIndex={0}>{visible(all ? found : found.slice(0, LONGEST), true)}</pre>
      {!all && found.length > LONGEST && <button type="button" onClick={() => setAll(true)}>Show all</button>}
    </>
  );
}
