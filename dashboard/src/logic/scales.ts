// The number of instances per city, placement by placement, and the patch that changes it.

export interface Scale {
  name: string;
  /** Position among the placements. */
  index: number;
  cities: number;
  least: number;
  /** The limit of autoscaling, if there is one. */
  most?: number;
  /** The previous value. */
  was: number | undefined;
}

interface Placement {
  name: string;
  cityCodes?: string[];
  scaleSettings?: { minReplicas?: number; maxReplicas?: number };
}

interface Operation {
  op: "test" | "add";
  path: string;
  value: unknown;
}

export function scalesOf(placements: readonly Placement[]): Scale[] {
  return placements.map(({ name, cityCodes = [], scaleSettings: { minReplicas, maxReplicas } = {} }, index) => ({
    name, index, cities: cityCodes.length, least: minReplicas ?? 1, was: minReplicas, ...(maxReplicas === undefined ? {} : { most: maxReplicas }),
  }));
}

/**
 * A JSON patch of the changes. Each placement is tested by name, since another one may have taken its position, and by the
 * number that the user saw.
 */
export function scaled(scales: readonly Scale[]): Operation[] {
  return scales.filter((each) => each.least !== each.was).flatMap(({ name, index, least, was }): Operation[] => [
    { op: "test", path: `/spec/placements/${index}/name`, value: name },
    was === undefined
      ? { op: "add", path: `/spec/placements/${index}/scaleSettings`, value: { minReplicas: least } }
      : { op: "test", path: `/spec/placements/${index}/scaleSettings/minReplicas`, value: was },
    ...(was === undefined ? [] : [{ op: "add" as const, path: `/spec/placements/${index}/scaleSettings/minReplicas`, value: least }]),
  ]);
}
