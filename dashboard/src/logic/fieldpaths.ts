// The field paths in which the server speaks of an object: `spec.ports[0].name`, `.spec.placements[name="us"]`, `labels[a.b/c]`.

/** A field by its name, an element by its place, or one by the values that make it unique. */
export type Step = string | number | Record<string, string>;

const STEP = /\.?([^.[\]]+)|\[(\d+)\]|\[([^\]"=]+="(?:[^"\\]|\\.)*"(?:,[^\]"=]+="(?:[^"\\]|\\.)*")*)\]|\[([^\]]*)\]/gy;
const PAIR = /([^,"=]+)="((?:[^"\\]|\\.)*)"/g;

export function steps(path: string): Step[] {
  const found: Step[] = [];
  for (const [, name, place, keys, other] of path.matchAll(STEP)) {
    if (name !== undefined) found.push(name);
    else if (place !== undefined) found.push(Number(place));
    else if (keys !== undefined) found.push(Object.fromEntries([...keys.matchAll(PAIR)].map(([, key = "", value = ""]) => [key, value])));
    else found.push(other ?? "");
  }
  return found;
}
