// The cities of a rollout in their waves: those that have the newest revision in the order in which they got it, then those
// that wait, as the server's controller takes them.

export interface WaveCity {
  city: string;
  /** Position among the placements. */
  order: number;
  /** True if its deployment has the newest revision. */
  reached: boolean;
  ready: number;
  /** Ready instances of the newest revision. */
  updated: number;
  desired: number;
  failed: boolean;
}

export interface Wave<City> {
  number: number;
  cities: City[];
}

/** The wave, counted from 1, of the city at a position counted from 0: 1 city, then 2, then 4. */
export function waveOf(position: number, allAtOnce: boolean): number {
  return allAtOnce ? 1 : 32 - Math.clz32(position + 1);
}

/** Waves in order. Of the cities that wait, incomplete ones come first. */
export function wavesOf<City extends WaveCity>(cities: readonly City[], allAtOnce: boolean): Wave<City>[] {
  const placed = cities.toSorted((a, b) => a.order - b.order);
  const complete = (each: City) => Number(each.ready >= each.desired);
  const order = [...placed.filter((each) => each.reached), ...placed.filter((each) => !each.reached).sort((a, b) => complete(a) - complete(b))];
  const waves: Wave<City>[] = [];
  order.forEach((each, position) => {
    const number = waveOf(position, allAtOnce);
    if (waves.at(-1)?.number !== number) waves.push({ number, cities: [] });
    waves.at(-1)?.cities.push(each);
  });
  return waves;
}
