import assert from "node:assert/strict";
import { test } from "node:test";
import { scaled, scalesOf } from "./scales.ts";

const placements = [
  { name: "us", cityCodes: ["DFW", "SEA"], scaleSettings: { minReplicas: 2, maxReplicas: 5 } },
  { name: "eu", cityCodes: ["LHR"], scaleSettings: { minReplicas: 1 } },
];

test("only placements that change are patched, and each is tested by its name", () => {
  const [us, eu] = scalesOf(placements);
  assert.ok(us && eu);
  assert.deepEqual([us.cities, us.least, us.most, eu.most], [2, 2, 5, undefined]);
  assert.deepEqual(scaled([{ ...us, least: 4 }, eu]), [
    { op: "test", path: "/spec/placements/0/name", value: "us" },
    { op: "test", path: "/spec/placements/0/scaleSettings/minReplicas", value: 2 },
    { op: "add", path: "/spec/placements/0/scaleSettings/minReplicas", value: 4 },
  ]);
});

test("a placement without a count gets one", () => {
  const [only] = scalesOf([{ name: "a" }]);
  assert.ok(only);
  assert.deepEqual(scaled([{ ...only, least: 3 }]).at(-1), { op: "add", path: "/spec/placements/0/scaleSettings", value: { minReplicas: 3 } });
});
