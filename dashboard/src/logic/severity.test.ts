import assert from "node:assert/strict";
import { test } from "node:test";
import { because } from "./because.ts";
import { attention, mostUrgent, severity, severityOf } from "./severity.ts";

test("states of workloads, instances and nodes", () => {
  const cases: [string, string, string, string][] = [
    ["Available", "", "2/2", "ok"], ["Progressing", "NewRevision", "2/2", "busy"], ["Pending", "Starting", "0/2", "busy"],
    ["Pending", "InsufficientCapacity", "0/1", "bad"], ["Pending", "InstanceCrashing", "0/3", "bad"], ["Degraded", "CityLost", "2/3", "warn"],
    ["Degraded", "CityLost", "0/3", "bad"], ["Running", "", "", "ok"], ["NodeLost", "", "", "bad"], ["Deleting", "", "", "busy"], ["Completed", "", "", "ok"],
    ["Ready", "", "", "ok"], ["Ready,SchedulingDisabled", "", "", "warn"], ["NotReady", "", "", "bad"], ["", "", "", "unknown"],
    ["", "", "1/2", "warn"], ["", "", "True", "ok"], ["", "", "False", "bad"],
  ];
  for (const [status, reason, ready, expected] of cases) assert.equal(severity({ status, reason, ready }), expected, `${status} ${reason} ${ready}`);
});

test("a row is judged by its columns", () => {
  assert.equal(severityOf({ cells: ["web", "NodeLost"] }, [{ name: "Name" }, { name: "Status" }]), "bad");
  assert.equal(severityOf({ cells: ["web"] }, [{ name: "Name" }]), "unknown");
});

test("the most urgent of several", () => {
  assert.equal(mostUrgent(["ok", "warn", "busy"]), "warn");
  assert.equal(mostUrgent([]), "ok");
  assert.ok(attention("bad") && !attention("busy"));
});

test("a sentence without what the page says already", () => {
  assert.equal(because("Workload shop/payments has 0 of 12 instances ready in 0 of 4 cities; in DFW: no room."), "In DFW: no room.");
  assert.equal(because("Everything is fine."), "Everything is fine.");
});
