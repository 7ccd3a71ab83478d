import assert from "node:assert/strict";
import { test } from "node:test";
import { amount, barOf, sentence, type Account } from "./ledger.ts";

const CPU: Account = {
  resource: "cpu", capacity: "8", reserved: [{ for: "system", amount: "2", source: "kubelet" }], oversubscription: "1.000", allocatable: "7",
  exclusive: { capacity: "6", committed: "2" }, committed: "3500m", used: "10m",
};

test("quantities are numbers", () => {
  assert.deepEqual(["32", "10m", "1.500", "128Gi", "2k", "1e3", "5n"].map(amount), [32, 0.01, 1.5, 128 * 2 ** 30, 2000, 1000, 5e-9]);
  assert.ok(["", undefined, "<b>", "1x"].every((each) => Number.isNaN(amount(each))));
});

test("the reserved part ends the bar, and begins with the oversubscribed amount", () => {
  const bar = barOf(CPU);
  assert.deepEqual(bar, {
    scale: 8, capacity: 8, allocatable: 7,
    segments: [
      { name: "reserved", from: 6, to: 8 }, { name: "oversubscribed", from: 6, to: 7 }, { name: "committed", from: 0, to: 3.5 },
      { name: "exclusive", from: 0, to: 2 }, { name: "used", from: 0, to: 0.01 },
    ],
  });
  assert.equal(barOf({ ...CPU, oversubscription: "4", allocatable: "10" })?.scale, 10);
  assert.equal(barOf({ resource: "pid", reserved: [] }), null);
});

test("it is said in words too", () => {
  assert.equal(sentence(CPU), "cpu: 8 in all; reserved: 2 for system; 1.000 of it oversubscribed; 7 for pods; exclusive: 2 of 6; committed: 3500m; used: 10m.");
  assert.equal(sentence({ resource: "pods", capacity: "110", reserved: [], allocatable: "110" }), "pods: 110 in all; nothing reserved; 110 for pods.");
});
