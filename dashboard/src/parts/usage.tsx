// Usage of a node or an instance, as plots that begin with the minutes that the server keeps.
import { visible } from "../logic/text.ts";
import { useUsage } from "../state/usage.ts";
import { Plot } from "./plot.tsx";

interface Props {
  path: string;
  /** Requests and limits by resource. */
  bounds?: Record<string, { request?: string; limit?: string }>;
}

export function Usage({ path, bounds = {} }: Props) {
  const { samples, since, failure } = useUsage(path);
  return (
    <section aria-label="Usage">
      <h2>Usage</h2>
      <p class="muted">{said(since)}</p>
      {failure && <p class="muted">{visible(failure.code === 404 ? "No measurements yet." : failure.message)}</p>}
      {Object.entries(samples).map(([resource, each]) => <Plot key={resource} resource={resource} samples={each} bounds={bounds[resource] ?? {}} />)}
    </section>
  );
}

function said(since: string): string {
  if (!since) return "Measured every 15 seconds while this is shown, since the page was opened; this server keeps no history.";
  return `Measured every 15 seconds while this is shown. The server keeps the last 30 minutes in memory: a sample a minute, since its start at ${new Date(since).toLocaleTimeString()} at the earliest.`;
}
