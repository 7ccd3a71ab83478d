// Ready of desired instances over the last minutes, as the points of a small line and as a comparison.

export interface ReadySample {
  timestamp: string;
  ready: number;
  desired: number;
}

/** A Workload's last minutes, as the server keeps them. */
export interface WorkloadHistory {
  samples: ReadySample[];
  since?: string;
}

const LEAST = 5; // a line of fewer points says nothing

/** The points of both lines in a box, oldest at the left; null while there are too few samples. */
export function readyLines(samples: readonly ReadySample[], width: number, height: number): { ready: string; desired: string } | null {
  if (samples.length < LEAST) return null;
  const most = Math.max(1, ...samples.map((each) => Math.max(each.ready, each.desired)));
  const [first, last] = [Date.parse(samples[0]?.timestamp ?? ""), Date.parse(samples.at(-1)?.timestamp ?? "")];
  const points = (of: "ready" | "desired") => samples.map((each) => {
    const x = ((Date.parse(each.timestamp) - first) / (last - first || 1)) * width;
    return `${round(x)},${round(height - (each[of] / most) * height)}`;
  }).join(" ");
  return { ready: points("ready"), desired: points("desired") };
}

/** Such as `12/12 14m ago`, the oldest sample; the age is written by the caller. */
export function readyBefore(samples: readonly ReadySample[], age: (time: string) => string): string {
  const first = samples[0];
  return first ? `${first.ready}/${first.desired} ${age(first.timestamp)} ago` : "";
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
