// Committed and used of the capacity of a node, as a bar beside the numbers.
import { loadText, usedText, type Load } from "../logic/load.ts";
import { readable } from "../logic/usage.ts";
import { cell } from "../logic/text.ts";

const WIDTH = 56;

export function LoadBar({ load }: { load: Load }) {
  const share = (value: number) => Math.min(1, load.allocatable ? value / load.allocatable : 0) * WIDTH;
  const used = load.used ? `, ${readable(load.resource, load.used)} used` : "";
  return (
    <span class="load" title={cell(`${loadText(load)} committed${used}`)}>
      <svg viewBox={`0 0 ${WIDTH} 6`} aria-hidden="true" focusable="false">
        <rect class="track" width={WIDTH} height="6" rx="3" />
        <rect class="committed" width={share(load.committed)} height="6" rx="3" />
        {load.used > 0 && <rect class="used" y="2" width={Math.max(1, share(load.used))} height="2" />}
      </svg>
      {cell(loadText(load))}
      {load.used > 0 && <span class="muted">{cell(usedText(load))}</span>}
    </span>
  );
}
