import assert from "node:assert/strict";
import { test } from "node:test";
import { byName, changed, Ordered, updated } from "./ordered.ts";

interface Item {
  namespace: string;
  name: string;
}

const item = (name: string, namespace = "default"): Item => ({ namespace, name });
const names = (rows: readonly Item[]) => rows.map((each) => each.name).join("");

test("namespaces come before names", () => {
  assert.deepEqual([item("a", "b"), item("b", "a"), item("a", "a")].sort(byName), [item("a", "a"), item("b", "a"), item("a", "b")]);
});

test("what comes, changes and goes is in its place, however often it does so before somebody looks", () => {
  const rows = new Ordered<Item>(byName);
  for (const each of "dba") rows.set(each, item(each));
  const first = rows.inOrder();
  assert.equal(names(first), "abd");
  rows.set("c", item("c"));
  rows.delete("c");
  rows.set("b", item("z"));
  rows.set("b", item("e"));
  rows.delete("a");
  rows.delete("nothing");
  assert.equal(names(rows.inOrder()), "de");
  assert.equal(names(first), "abd"); // who has it keeps it
  rows.set("c", item("c"));
  rows.replace(new Map([["y", item("y")], ["x", item("x")]]));
  assert.equal(names(rows.inOrder()), "xy");
  rows.delete("y");
  assert.equal(names(rows.inOrder()), "x");
});

test("a difference leads from one to the other, in another order too", () => {
  let seed = 1;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  const rows = new Ordered<Item>(byName);
  const backwards = (a: Item, b: Item) => -byName(a, b);
  let before = rows.inOrder();
  let shown: Item[] = [];
  for (let round = 0; round < 500; round += 1) {
    for (let each = random(10); each > 0; each -= 1) {
      const key = String(random(40));
      if (random(3)) rows.set(key, item(String(random(100))));
      else rows.delete(key);
    }
    const after = rows.inOrder();
    const { gone, come } = changed(before, after, byName);
    shown = updated(shown, gone, come, backwards);
    assert.deepEqual(after, [...after].sort(byName));
    assert.equal(names(shown), names([...after].sort(backwards)));
    assert.deepEqual(new Set(shown), new Set(after));
    before = after;
  }
});

test("comparisons are made for what has changed alone", () => {
  let compared = 0;
  const counted = (a: Item, b: Item) => ((compared += 1), byName(a, b));
  const many = Array.from({ length: 10_000 }, (_, each) => item(String(each).padStart(5, "0")));
  const come = [item("00500x"), item("09000x")];
  const after = updated(many, new Set(many.slice(0, 1)), come, counted);
  assert.equal(after.length, 10_001);
  assert.ok(compared < 40, String(compared));
  compared = 0;
  assert.deepEqual(changed(many, after, counted).come, come);
  assert.ok(compared < 10, String(compared));
});
