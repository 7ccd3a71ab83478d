import assert from "node:assert/strict";
import { test } from "node:test";
import { failoversOf, failoverText } from "./failovers.ts";

test("stand-ins of several Workloads between two cities are one failover", () => {
  const found = failoversOf([{ from: "NRT", to: "SYD", ready: "1/1" }, { from: "NRT", to: "SIN", ready: "2/2" }, { from: "NRT", to: "SIN", ready: "0/1" }]);
  assert.deepEqual(found, [{ from: "NRT", to: "SIN", ready: 2, desired: 3 }, { from: "NRT", to: "SYD", ready: 1, desired: 1 }]);
  assert.deepEqual(found.map(failoverText), ["3 instances of NRT run in SIN instead, 2 of them ready.", "1 instance of NRT runs in SYD instead."]);
});

test("a deployment without counts is a failover of none", () => {
  assert.deepEqual(failoversOf([{ from: "NRT", to: "SIN", ready: "" }]), [{ from: "NRT", to: "SIN", ready: 0, desired: 0 }]);
});
