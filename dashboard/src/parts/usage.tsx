// Usage of a node or an instance, as plots that begin when the page was opened.
import { visible } from "../logic/text.ts";
import { useUsage } from "../state/usage.ts";
import { Plot } from "./plot.tsx";

interface Props {
  path: string;
  /** Requests and limits by resource. */
  bounds?: Record<string, { request?: string; limit?: string }>;
}

export function Usage({ path, bounds = {} }: Props) {
  const { samples, failure } = useUsage(path);
  return (
    <section aria-label="Usage">
      <h2>Usage</h2>
      <p class="muted">Measured every 15 seconds while this is shown, since the page was opened; history is not stored.</p>
      {failure && <p class="muted">{visible(failure.code === 404 ? "No measurements yet." : failure.message)}</p>}
      {Object.entries(samples).map(([resource, each]) => <Plot key={resource} resource={resource} samples={each} bounds={bounds[resource] ?? {}} />)}
    </section>
  );
}
