// Ready of desired instances of a Workload over the last 30 minutes, as a small line, and how many were ready at its begin.
import { readyBefore, readyLines, type WorkloadHistory } from "../logic/readyhistory.ts";
import { age, visible } from "../logic/text.ts";
import { useLoaded } from "../state/loaded.ts";
import { now } from "../state/navigation.ts";

const WIDTH = 96;
const HEIGHT = 18;
const EVERY = 60_000; // as the server records

export function ReadyLine({ path }: { path: string }) {
  const { value } = useLoaded<WorkloadHistory>(`${path}/history`, EVERY);
  const samples = value?.samples ?? [];
  const lines = readyLines(samples, WIDTH, HEIGHT);
  if (!lines) return null;
  const before = visible(readyBefore(samples, (time) => age(time, now.value)));
  return (
    <span class="readyline" title={`Ready instances of those desired, one sample a minute; ${before}`}>
      <svg viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`} role="img" aria-label={`Ready instances over the last minutes: ${before}`}>
        <polyline class="desired" points={lines.desired} />
        <polyline points={lines.ready} />
      </svg>
      <span class="muted">{before}</span>
    </span>
  );
}
