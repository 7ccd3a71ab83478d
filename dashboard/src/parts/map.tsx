// Cities on a map. Each is a ring that fills with ready of desired. A city without known coordinates is only in the list beside it.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { geoNaturalEarth1, geoPath, type GeoPermissibleObjects, type GeoProjection } from "d3-geo";
import { feature } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import { MARKS, type State } from "../logic/health.ts";
import { failoverText, type Failover } from "../logic/failovers.ts";
import { clustered, placed, type Area, type Mark, type Placed } from "../logic/mapplaces.ts";
import { cell } from "../logic/text.ts";
import { useLoaded, type Loaded } from "../state/loaded.ts";
import CITIES from "../_generated/cities.json" with { type: "json" };
import { CITY, NETWORKING } from "../views/paths.ts";

// No city lies beyond: from 60° south to 75° north.
const LIVED_IN: GeoPermissibleObjects = { type: "MultiPoint", coordinates: [[-168, -56], [-168, 75], [180, -56], [180, 75], [0, 75], [0, -56]] };
const NARROW = 480;
const EDGE = 3; // pixels that the stroke of a ring needs
const ROOM = 48; // pixels around the cities that the map is zoomed to
const CLUSTER = 15; // radius of a mark for several cities
const STATES = ["no", "wait", "unknown", "yes"] as const; // the worst first
const SIZES = [9, 12, 15]; // radius by the number of instances: below 10, below 100, above
const KNOWN = CITIES as unknown as Record<string, [longitude: number, latitude: number]>;

export interface Location {
  metadata: { name: string };
  spec: { topology?: Record<string, string>; coordinates?: { latitude: string; longitude: string } };
  status?: { allocatable?: Record<string, string> };
}

export interface Place {
  code: string;
  at: [longitude: number, latitude: number] | null;
  state: State;
  label: string;
  /** How much is there, for the size of its mark. */
  size: number;
  /** The share that is ready, 0 to 1; without it the ring is full. */
  share?: number;
  href?: string;
  chosen?: boolean;
}

export function useLocations(): Loaded<{ items: Location[] }> {
  return useLoaded<{ items: Location[] }>(`${NETWORKING}/locations`, 30_000);
}

/** Coordinates of a city code, for users without the right to read Locations; null for an unknown code. */
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

interface MapProps {
  places: readonly Place[];
  label: string;
  failovers?: readonly Failover[];
  /** The cities that the map is zoomed to; all of them if empty. */
  within?: readonly string[];
  /** The link that zooms to a cluster; without it clusters are no links. */
  zoom?: (codes: readonly string[]) => string;
}

export function WorldMap({ places, label, failovers = [], within = [], zoom }: MapProps) {
  const land = useLand();
  const [frame, area] = useArea();
  const near = within.join(",");
  const projection = useMemo(() => projectionOf(area, places.filter((each) => near.split(",").includes(each.code))), [area.width, area.height, near, near && places]);
  const outline = useMemo(() => (land ? (geoPath(projection)(land) ?? "") : ""), [land, projection]);
  const found = places.filter((each) => each.at).map((place) => ({ place, ...markOf(place, projection, area) }));
  const all = near ? found.filter((each) => inArea(each, area)) : found.map((each) => ({ ...each, x: between(each.x, each.radius + EDGE, area.width) })); // Sydney is at the edge of a narrow map
  const { groups, single } = near ? { groups: [], single: all } : clustered(all);
  const joined = groups.map((each) => clusterOf(each, zoom));
  const known = new Map([...single, ...joined].map((each) => [each.code, each.place]));
  const marks = placed([...single, ...joined], area);
  const at = new Map(marks.flatMap((mark) => mark.code.split(",").map((code): [string, Placed] => [code, mark])));
  return (
    <div class="map-frame" ref={frame}>
      <svg class="map" viewBox={`0 0 ${area.width} ${area.height}`} role="group" aria-label={label}>
        {outline && <path class="land" d={outline} />}
        {failovers.map((each) => <Arc key={`${each.from} ${each.to}`} failover={each} from={at.get(each.from)} to={at.get(each.to)} />)}
        {marks.map((each) => {
          const place = known.get(each.code);
          if (!place) return null;
          const mark = <City mark={each} place={place} />;
          return place.href ? <a key={each.code} href={place.href} aria-current={place.chosen ? "true" : undefined} aria-label={cell(place.label)}>{mark}</a> : <g key={each.code}>{mark}</g>;
        })}
      </svg>
    </div>
  );
}

/** The whole world, or the region of some cities. */
function projectionOf({ width, height }: Area, near: readonly Place[]): GeoProjection {
  const points = near.flatMap((each) => (each.at ? [each.at] : []));
  if (points.length < 2) return geoNaturalEarth1().fitSize([width, height], LIVED_IN);
  return geoNaturalEarth1().fitExtent([[ROOM, ROOM], [width - ROOM, height - ROOM]], { type: "MultiPoint", coordinates: points });
}

function markOf(place: Place, projection: GeoProjection, area: Area): Mark {
  const [x, y] = projection(place.at as [number, number]) ?? [0, 0];
  const text = area.width < NARROW && place.state === "yes" ? place.code : place.label;
  const radius = radiusOf(place.size);
  return { code: place.code, x, y, radius, label: cell(text), urgent: place.state !== "yes" };
}

function between(x: number, edge: number, width: number): number {
  return Math.max(edge, Math.min(width - edge, x));
}

function inArea({ x, y }: Mark, { width, height }: Area): boolean {
  return x >= 0 && x <= width && y >= 0 && y <= height;
}

/** One mark for cities that are too close: in the worst state of them, filled with what is ready in all. */
function clusterOf(group: readonly (Mark & { place: Place })[], zoom: MapProps["zoom"]): Mark & { place: Place } {
  const codes = group.map((each) => each.code).sort();
  const size = group.reduce((all, each) => all + each.place.size, 0);
  const ready = group.reduce((all, each) => all + Math.round((each.place.share ?? 1) * each.place.size), 0);
  const mean = (of: "x" | "y") => group.reduce((all, each) => all + each[of], 0) / group.length;
  const state = STATES.find((each) => group.some(({ place }) => place.state === each)) ?? "unknown";
  const label = `${group.length} cities ${ready}/${size}`;
  const place: Place = { code: codes.join(","), at: null, state, label, size, share: size ? ready / size : 1, ...(zoom ? { href: zoom(codes) } : {}) };
  return { place, code: place.code, x: mean("x"), y: mean("y"), radius: CLUSTER, label, urgent: true };
}

/** From a lost city to the one that runs its instances; dashed until all of them are ready. */
function Arc({ failover, from, to }: { failover: Failover; from: Placed | undefined; to: Placed | undefined }) {
  if (!from || !to || from === to) return null;
  const bend = Math.hypot(to.x - from.x, to.y - from.y) / 4;
  const middle = `${(from.x + to.x) / 2 + bend} ${(from.y + to.y) / 2 - bend / 2}`;
  return (
    <path class={failover.ready < failover.desired ? "arc busy" : "arc"} d={`M${from.x} ${from.y} Q${middle} ${to.x} ${to.y}`}>
      <title>{cell(failoverText(failover))}</title>
    </path>
  );
}

function City({ mark: { x, y, radius, label, at }, place }: { mark: Placed; place: Place }) {
  const around = 2 * Math.PI * radius;
  const share = Math.max(0, Math.min(1, place.share ?? 1));
  return (
    <>
      <circle class={`hole ${place.state}`} cx={x} cy={y} r={radius} />
      <circle class={`ring ${place.state}`} cx={x} cy={y} r={radius} stroke-dasharray={`${share * around} ${around}`} transform={`rotate(-90 ${x} ${y})`} />
      {place.state !== "yes" && <text class={`shape ${place.state}`} x={x} y={y + 4} text-anchor="middle" aria-hidden="true">{MARKS[place.state]}</text>}
      {at && (Math.abs(at.y - y) > radius || Math.abs(at.x - x) > 2 * radius) && <line class="leader" {...leaderOf({ x, y }, at, radius)} />}
      {!at && <text class="label hidden" x={x + radius + 4} y={y + 4}>{label}</text>}
      {at && <text class="label" x={at.x} y={at.y + 4} text-anchor={at.anchor}>{label}</text>}
    </>
  );
}

/** From the edge of a ring to its label. */
function leaderOf(from: { x: number; y: number }, to: { x: number; y: number }, radius: number) {
  const way = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const part = Math.min(1, (radius + 3) / way);
  return { x1: from.x + (to.x - from.x) * part, y1: from.y + (to.y - from.y) * part, x2: to.x, y2: to.y };
}

function radiusOf(size: number): number {
  return SIZES[size >= 100 ? 2 : size >= 10 ? 1 : 0] ?? 9;
}

/** The size of the frame in pixels, so that text has the same size on every screen. */
function useArea() {
  const frame = useRef<HTMLDivElement>(null);
  const [area, setArea] = useState<Area>({ width: 960, height: 400 });
  useLayoutEffect(() => {
    const measure = () => {
      const width = Math.round(frame.current?.clientWidth ?? 0);
      if (width) setArea({ width, height: Math.round(Math.min(width * 0.5, Math.max(200, innerHeight * 0.55))) });
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  return [frame, area] as const;
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
