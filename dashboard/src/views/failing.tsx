// An instance that fails, where it stops a rollout: exit code, last lines of its log, and the way to it.
import { useEffect, useState } from "preact/hooks";
import { text } from "../api/requests.ts";
import { crashOf, type Crash, type CrashedPod } from "../logic/crash.ts";
import { link } from "../logic/routes.ts";
import { age, visible } from "../logic/text.ts";
import { useLoaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";
import { named } from "./paths.ts";

const EVERY = 5000;
const LINES = 8;

export interface Failed {
  city: string;
  instance: string;
  reason: string;
  message: string;
}

export function Failing({ namespace, failed: { city, instance, reason, message } }: { namespace: string; failed: Failed }) {
  const path = named("/api/v1", "pods", namespace, instance);
  const { value } = useLoaded<CrashedPod>(path, EVERY);
  const crash = value && crashOf(value);
  const log = useLastLines(path, crash);
  return (
    <section class="failing" aria-label={visible(`Failing instance ${instance}`)}>
      <h2><span aria-hidden="true">✕</span> {visible(city)} <a href={link("instances", [namespace, instance])}>{visible(instance)}</a></h2>
      <p>{visible(crash ? sentence(crash) : `${reason}: ${message}`)}</p>
      {log && <pre class="text log" tabIndex={0} aria-label={visible(`Last lines of ${instance}`)}>{visible(log, true)}</pre>}
      <p><a href={link("instances", [namespace, instance, "logs"], crash?.previous ? { previous: "true" } : {})}>Whole log</a></p>
    </section>
  );
}

function sentence({ container, exitCode, reason, restarts, finished }: Crash): string {
  const why = reason && reason !== "Error" ? ` (${reason})` : "";
  const again = restarts ? `, restarted ${restarts === 1 ? "once" : `${restarts} times`}` : "";
  return `Container ${container} exited with code ${exitCode}${why}, ${age(finished, now.value)} ago${again}.`;
}

/** The end of the log of the container that crashed; empty if there is none, or the user may not read it. */
function useLastLines(pod: string, crash: Crash | null): string {
  const [lines, setLines] = useState("");
  const query = crash && new URLSearchParams({ container: crash.container, tailLines: String(LINES), ...(crash.previous ? { previous: "true" } : {}) }).toString();
  useEffect(() => {
    if (!query) return;
    let over = false;
    text(`${pod}/log?${query}`, { accept: "*/*" }).then((found) => over || setLines(found.trimEnd()), () => over || setLines(""));
    return () => void (over = true);
  }, [pod, query, crash?.restarts]);
  return lines;
}
