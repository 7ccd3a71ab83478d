// Recorded sessions at a machine's console and screen, played in a terminal that takes no keys.
import { useEffect, useState } from "preact/hooks";
import { Failure, text } from "../api/requests.ts";
import { castOf, type Cast } from "../logic/cast.ts";
import { bytes } from "../logic/external.ts";
import { link } from "../logic/routes.ts";
import { cell, visible, word } from "../logic/text.ts";
import { Command, Failed, Loading, Scrolls } from "../parts/states.tsx";
import { useLoaded } from "../state/loaded.ts";
import { Player } from "./recordingsplayer.tsx";

interface Recording {
  session: string;
  user: string;
  kind: string;
  keyboard: boolean;
  began: string;
  ended: string;
  bytes: number;
}

export function Recordings({ instance, namespace, name, session }: { instance: string; namespace: string; name: string; session: string }) {
  const { value, failure, again } = useLoaded<{ recordings: Recording[] }>(`${instance}/recordings`);
  const to = (each: string) => link("instances", [namespace, name, "recordings"], { session: each });
  return (
    <>
      {session && <Played key={session} path={`${instance}/recordings?session=${encodeURIComponent(session)}`} />}
      {failure && <Failed failure={failure} again={again} />}
      {!value && !failure && <Loading />}
      {value && value.recordings.length === 0 && <p class="muted">No session has been recorded here yet. Sessions at the console and the screen are, unless the namespace has that switched off.</p>}
      {value && value.recordings.length > 0 && (
        <Scrolls what="Recordings"><table>
          <thead><tr>{["Began", "Ended", "Who", "Where", "Keyboard", "Size", "Session"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>
            {value.recordings.map((each) => (
              <tr key={each.session}>
                <th scope="row">{cell(each.began)}</th><td>{cell(each.ended)}</td><td>{cell(each.user)}</td>
                <td>{cell(each.kind === "vnc" ? "screen" : each.kind)}</td><td>{each.keyboard ? "asked for" : "no"}</td><td>{bytes(each.bytes)}</td>
                <td><a href={to(each.session)} aria-current={each.session === session ? "true" : undefined}>Play {cell(each.session)}</a></td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
      <Command text={`tarmac console ${word(name)} -n ${word(namespace)} ${session ? `--replay ${word(session)}` : "--list"}`} />
    </>
  );
}

function Played({ path }: { path: string }) {
  const [found, setFound] = useState<Cast | Failure | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    text(path, { accept: "*/*", signal: abort.signal })
      .then((said) => setFound(castOf(said) ?? new Failure(0, "This is no recording in the format asciicast 2.")))
      .catch((error: unknown) => abort.signal.aborted || setFound(error instanceof Failure ? error : new Failure(0, String(error))));
    return () => abort.abort();
  }, [path]);
  if (found === null) return <Loading />;
  if (found instanceof Failure) return <Failed failure={found} />;
  return (
    <section aria-label="Recording">
      <h2>{visible(`${found.user || "A user"} at ${found.title || "the machine"}`)}</h2>
      {found.kind === "vnc" && <p class="muted">Of a screen only the user of the keyboard is recorded, never what was drawn.</p>}
      {found.bad > 0 && <p class="stale">{found.bad} lines of it cannot be read, and are left out.</p>}
      <Player cast={found} />
    </section>
  );
}
