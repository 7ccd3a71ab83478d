// A line of usage, beside the same in words. It begins when the page was opened, and says so.
import { pointsOf, readable, type Sample } from "../logic/usage.ts";
import { visible } from "../logic/text.ts";

const WIDTH = 320;
const HEIGHT = 64;

export function Plot({ resource, samples }: { resource: string; samples: Sample[] }) {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return null;
  const most = Math.max(...samples.map((each) => each.value));
  const least = Math.min(...samples.map((each) => each.value));
  const since = new Date(first.time).toLocaleTimeString();
  const said = `${resource}: ${readable(resource, last.value)} now; between ${readable(resource, least)} and ${readable(resource, most)} since ${since}, ${samples.length} ${samples.length === 1 ? "measurement" : "measurements"}`;
  return (
    <figure class="plot">
      <figcaption>{visible(said)}</figcaption>
      <svg viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`} role="img" aria-label={visible(said)} preserveAspectRatio="none">
        <polyline points={pointsOf(samples, most * 1.25, WIDTH, HEIGHT)} />
      </svg>
    </figure>
  );
}
