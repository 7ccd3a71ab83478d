// Usage as a line, with those of the request and the limit, beside the same in words. A line of few points says nothing, so
// there is none before the fifth.
import { boundsIn, pointsOf, readable, type Bound, type Sample } from "../logic/usage.ts";
import { visible } from "../logic/text.ts";

const WIDTH = 320;
const HEIGHT = 64;
export const LEAST = 5;

interface Props {
  resource: string;
  samples: Sample[];
  bounds?: { request?: string; limit?: string };
}

export function Plot({ resource, samples, bounds = {} }: Props) {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return null;
  const values = samples.map((each) => each.value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const lines = boundsIn(bounds);
  const top = Math.max(most, ...lines.map((each) => each.value)) * 1.1;
  const of = lines.map(({ name, value }) => `, ${name} ${readable(resource, value)}`).join("");
  if (samples.length < LEAST) return <p class="muted">{visible(`${resource}: ${readable(resource, last.value)} now${of}; a chart after ${LEAST} measurements, ${samples.length} so far.`)}</p>;
  const since = new Date(first.time).toLocaleTimeString();
  const said = `${resource}: ${readable(resource, last.value)} now${of}; between ${readable(resource, least)} and ${readable(resource, most)} since ${since}, ${samples.length} measurements`;
  return (
    <figure class="plot">
      <figcaption>{visible(said)}</figcaption>
      <svg viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`} role="img" aria-label={visible(said)} preserveAspectRatio="none">
        {lines.map((each) => <Line key={each.name} bound={each} top={top} />)}
        <polyline points={pointsOf(samples, top, WIDTH, HEIGHT)} />
      </svg>
      <div class="axis" aria-hidden="true"><span>{since}</span><span>top {readable(resource, top)}</span><span>{new Date(last.time).toLocaleTimeString()}</span></div>
    </figure>
  );
}

function Line({ bound: { name, value }, top }: { bound: Bound; top: number }) {
  const y = HEIGHT - (value / top) * HEIGHT;
  return <line class={name} x1="0" x2={WIDTH} y1={y} y2={y} />;
}
