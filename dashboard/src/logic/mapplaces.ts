// Where the labels of cities stand on the map: beside their marks, above each other where cities are close, never over
// another label or mark.

export interface Mark {
  code: string;
  x: number;
  y: number;
  radius: number;
  label: string;
  /** Labels of urgent cities are placed first. */
  urgent: boolean;
}

export interface Placed extends Mark {
  /** Where the label begins, or ends if `anchor` is "end"; null if there is no room for it. */
  at: { x: number; y: number; anchor: "start" | "end" } | null;
}

export interface Area {
  width: number;
  height: number;
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const LETTER = 7; // pixels of a character of 12 px, on average
const LINE = 15;
const GAP = 4;
const STEPS = 6; // lines that a label may be moved up or down from its mark
const FAR = [0, 40, 80, 120, 160]; // pixels
const BETWEEN = 6; // pixels between two marks
const TOGETHER = 24; // pixels from a mark, within which others may be joined with it
const APART = 3; // marks that can be pushed apart without leaving their region

/** Groups of marks that are too close and too many to be pushed apart, and the marks of no group. */
export function clustered<M extends Mark>(marks: readonly M[]): { groups: M[][]; single: M[] } {
  const left = new Set(marks.toSorted((a, b) => b.radius - a.radius));
  const [groups, single]: [M[][], M[]] = [[], []];
  for (const mark of left) {
    const close = [...left].filter((each) => Math.hypot(each.x - mark.x, each.y - mark.y) < TOGETHER);
    for (const each of close.length > APART ? close : [mark]) left.delete(each);
    if (close.length > APART) groups.push(close);
    else single.push(mark);
  }
  return { groups, single };
}

/** Marks pushed apart, with places for their labels. Quadratic in the number of cities with a label, which fit on a screen. */
export function placed(marks: readonly Mark[], area: Area): Placed[] {
  const apart = spread(marks);
  const taken: Box[] = apart.map(({ x, y, radius }) => ({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius }));
  const order = apart.toSorted((a, b) => Number(b.urgent) - Number(a.urgent) || a.y - b.y || a.x - b.x);
  const found = new Map<string, Placed["at"]>();
  for (const mark of order) {
    const place = candidates(mark).find(({ box }) => inside(box, area) && !taken.some((each) => meet(each, box)));
    if (place) taken.push(place.box);
    found.set(mark.code, place ? { x: place.x, y: place.y, anchor: place.anchor } : null);
  }
  return apart.map((mark) => ({ ...mark, at: found.get(mark.code) ?? null }));
}

/** Cities of one region lie on each other on a map of the world: each is moved away from those before it. */
function spread(marks: readonly Mark[]): Mark[] {
  const done: Mark[] = [];
  for (const mark of marks) {
    let { x, y } = mark;
    for (let turn = 0; turn < 24; turn += 1) {
      const close = done.find((each) => Math.hypot(each.x - x, each.y - y) < each.radius + mark.radius + BETWEEN);
      if (!close) break;
      const far = (close.radius + mark.radius + BETWEEN) * 1.01;
      const angle = close.x === x && close.y === y ? turn : Math.atan2(y - close.y, x - close.x) + (turn > 8 ? 0.6 : 0);
      x = close.x + Math.cos(angle) * far;
      y = close.y + Math.sin(angle) * far;
    }
    done.push({ ...mark, x, y });
  }
  return done;
}

function* lines(): Generator<number> {
  yield 0;
  for (let step = 1; step <= STEPS; step += 1) yield* [-step, step];
}

/** Places for a label, the nearest first. Those of urgent cities may be farther away, at the end of a line to their mark. */
function candidates({ x, y, radius, label, urgent }: Mark) {
  const width = label.length * LETTER;
  const far = urgent ? FAR : FAR.slice(0, 1);
  return far.flatMap((more) => [...lines()].flatMap((step) => (["start", "end"] as const).map((anchor) => {
    const way = anchor === "start" ? 1 : -1;
    const from = x + way * (radius + GAP + more);
    const middle = y + step * LINE;
    const box = { left: Math.min(from, from + way * width), right: Math.max(from, from + way * width), top: middle - LINE / 2, bottom: middle + LINE / 2 };
    return { x: from, y: middle, anchor, box };
  })));
}

function inside(box: Box, { width, height }: Area): boolean {
  return box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
}

function meet(one: Box, other: Box): boolean {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}
