import assert from "node:assert/strict";
import { test } from "node:test";
import { observing } from "./observing.ts";

const ready = (time: string) => ({ complete: true, conditions: [{ type: "Ready", status: "True", reason: "", message: "", lastTransitionTime: time }] });
const NOW = Date.parse("2026-01-01T00:01:00Z");

test("the city that became ready last counts", () => {
  assert.deepEqual(observing([ready("2026-01-01T00:00:00Z"), ready("2026-01-01T00:00:50Z")], 60, NOW), { elapsed: 10, wanted: 60 });
});

test("no more than what is wanted has passed", () => {
  assert.deepEqual(observing([ready("2026-01-01T00:00:00Z")], 30, NOW), { elapsed: 30, wanted: 30 });
});

test("a wave with an incomplete city is not observed yet", () => {
  assert.equal(observing([ready("2026-01-01T00:00:00Z"), { complete: false, conditions: [] }], 60, NOW), null);
  assert.equal(observing([], 60, NOW), null);
});
