// Cities on a map. A city without known coordinates is only in the list beside it.
import { useEffect, useState } from "preact/hooks";
import { geoNaturalEarth1, geoPath, type GeoPermissibleObjects } from "d3-geo";
import { feature } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import { MARKS, type State } from "../logic/health.ts";
import { cell } from "../logic/text.ts";
import { useLoaded, type Loaded } from "../state/loaded.ts";
import CITIES from "../_generated/cities.json" with { type: "json" };
import { CITY, NETWORKING } from "../views/paths.ts";

const WIDTH = 960;
const ROOM = 470;
const KNOWN = CITIES as unknown as Record<string, [longitude: number, latitude: number]>;

export interface Location {
  metadata: { name: string };
  spec: { topology?: Record<string, string>; coordinates?: { latitude: string; longitude: string } };
}

export interface Place {
  code: string;
  at: [longitude: number, latitude: number] | null;
  state: State;
  label: string;
  /** How much is there, for the size of its mark. */
  size: number;
  href?: string;
}

export function useLocations(): Loaded<{ items: Location[] }> {
  return useLoaded<{ items: Location[] }>(`${NETWORKING}/locations`, 30_000);
}

/** Coordinates of a city code, for users who may not read Locations; null for an unknown code. */
export function placeOf(code: string): [number, number] | null {
  return KNOWN[code] ?? null;
}

/** Cities by their codes; null for a city without known coordinates. */
export function placesOf(locations: readonly Location[]): Map<string, [number, number] | null> {
  return new Map(locations.map(({ metadata, spec }) => {
    const place = spec.coordinates;
    const code = spec.topology?.[CITY] ?? metadata.name.toUpperCase();
    return [code, place ? [Number(place.longitude), Number(place.latitude)] : placeOf(code)];
  }));
}

export function WorldMap({ places, label }: { places: readonly Place[]; label: string }) {
  const land = useLand();
  const projection = geoNaturalEarth1().fitSize([WIDTH, ROOM], { type: "Sphere" });
  return (
    <svg class="map" viewBox={`0 0 ${WIDTH} ${ROOM}`} role="group" aria-label={label}>
      {land && <path class="land" d={geoPath(projection)(land) ?? ""} />}
      {places.filter((each) => each.at).map((each) => {
        const [x, y] = projection(each.at as [number, number]) ?? [0, 0];
        const mark = (
          <>
            <circle class={each.state} cx={x} cy={y} r={6 + Math.min(12, Math.sqrt(each.size))} />
            {each.state !== "yes" && <text class="shape" x={x} y={y + 4} text-anchor="middle" aria-hidden="true">{MARKS[each.state]}</text>}
            <text x={x} y={y - 16} text-anchor="middle">{cell(each.label)}</text>
          </>
        );
        return each.href ? <a key={each.code} href={each.href}>{mark}</a> : <g key={each.code}>{mark}</g>;
      })}
    </svg>
  );
}

function useLand(): GeoPermissibleObjects | null {
  const [land, setLand] = useState<GeoPermissibleObjects | null>(null);
  useEffect(() => {
    void import("world-atlas/land-110m.json").then((found) => {
      const atlas = found.default as unknown as Topology<{ land: GeometryCollection }>;
      setLand(feature(atlas, atlas.objects.land) as GeoPermissibleObjects);
    });
  }, []);
  return land;
}
