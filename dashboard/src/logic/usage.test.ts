import assert from "node:assert/strict";
import { test } from "node:test";
import { boundsIn, earlier, pointsOf, readable, usedOf } from "./usage.ts";

test("a node uses what it uses, and a Pod what its containers use together", () => {
  const timestamp = "2026-11-17T06:00:00Z";
  assert.deepEqual(usedOf({ timestamp, usage: { cpu: "1500m", memory: "1Ki" } }), { cpu: 1.5, memory: 1024 });
  assert.deepEqual(usedOf({ timestamp, containers: [{ usage: { cpu: "100m", memory: "1Ki" } }, { usage: { cpu: "400m" } }] }), { cpu: 0.5, memory: 1024 });
  assert.deepEqual(usedOf({ timestamp }), {});
});

test("samples become a line", () => {
  assert.equal(pointsOf([], 1, 100, 10), "");
  assert.equal(pointsOf([{ time: 5, value: 1 }], 2, 100, 10), "0,5 100,5");
  assert.equal(pointsOf([{ time: 0, value: 0 }, { time: 5, value: 2 }, { time: 10, value: 1 }], 2, 100, 10), "0,10 50,0 100,5");
  assert.deepEqual([readable("cpu", 0.25), readable("cpu", 12), readable("memory", 64 * 2 ** 20), readable("pods", 3)], ["250m", "12.0", "64Mi", "3"]);
});

test("usage is compared with its request and its limit, and with one line where they are the same", () => {
  assert.deepEqual(boundsIn({ request: "100m", limit: "1" }), [{ name: "request", value: 0.1 }, { name: "limit", value: 1 }]);
  assert.deepEqual(boundsIn({ request: "1", limit: "1" }), [{ name: "limit", value: 1 }]);
  assert.deepEqual(boundsIn({}), []);
});

test("the server's history comes before the page's own samples, and does not repeat them", () => {
  const at = (second: number) => `2026-11-17T06:00:0${second}Z`;
  const history = { samples: [1, 2, 3].map((each) => ({ timestamp: at(each), usage: { cpu: `${each}00m` } })) };
  assert.deepEqual(earlier({ timestamp: at(3), history }, Date.parse(at(3))), { cpu: [{ time: Date.parse(at(1)), value: 0.1 }, { time: Date.parse(at(2)), value: 0.2 }] });
  assert.deepEqual(earlier({ timestamp: at(3) }, 0), {});
});
