import assert from "node:assert/strict";
import { test } from "node:test";
import { clustered, placed, type Mark } from "./mapplaces.ts";

const AREA = { width: 900, height: 400 };
const mark = (code: string, x: number, y: number, urgent = false): Mark => ({ code, x, y, radius: 9, label: `${code} 10/10`, urgent });

/** The box of a label, as it is drawn. */
function box({ at, label }: ReturnType<typeof placed>[number]) {
  assert.ok(at);
  const width = label.length * 7;
  const left = at.anchor === "start" ? at.x : at.x - width;
  return { left, right: left + width, top: at.y - 7.5, bottom: at.y + 7.5 };
}

test("labels of close cities do not lie on each other", () => {
  const found = placed([mark("AMS", 450, 100), mark("LHR", 444, 100), mark("FRA", 455, 106), mark("CDG", 447, 108), mark("MUC", 460, 108)], AREA);
  const boxes = found.map(box);
  for (const [index, one] of boxes.entries()) for (const other of boxes.slice(index + 1)) {
    assert.ok(one.left >= other.right || other.left >= one.right || one.top >= other.bottom || other.top >= one.bottom);
  }
});

test("marks of one place are pushed apart", () => {
  const [one, other] = placed([mark("A", 100, 100), mark("B", 100, 100)], AREA);
  assert.ok(one && other && Math.hypot(one.x - other.x, one.y - other.y) >= 16);
});

test("a label stays within the map, on the other side if need be", () => {
  assert.equal(placed([mark("SYD", 895, 300)], AREA)[0]?.at?.anchor, "end");
});

test("an urgent city gets its label where there is no room for all", () => {
  const crowd = Array.from({ length: 60 }, (_, index) => mark(`C${index}`, 450 + (index % 3), 200 + (index % 5), index === 59));
  const found = placed(crowd, { width: 500, height: 240 });
  assert.ok(found.at(-1)?.at);
  assert.ok(found.some((each) => each.at === null));
});

test("four cities within 24 pixels are one group, three are pushed apart", () => {
  const mark = (code: string, x: number) => ({ code, x, y: 50, radius: 9, label: code, urgent: false });
  const close = ["AMS", "BRU", "CDG", "LHR"].map((code, index) => mark(code, 100 + index * 5));
  const found = clustered([...close, mark("SYD", 400)]);
  assert.deepEqual(found.groups.map((each) => each.map(({ code }) => code).sort()), [["AMS", "BRU", "CDG", "LHR"]]);
  assert.deepEqual(found.single.map(({ code }) => code), ["SYD"]);
  assert.deepEqual(clustered(close.slice(1)).groups, []);
});
