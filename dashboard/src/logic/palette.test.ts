import assert from "node:assert/strict";
import { test } from "node:test";
import { actionsOn, offered } from "./palette.ts";

const OBJECTS = [
  { label: "shop/frontend", what: "Workload", href: "#/workloads/shop/frontend" }, { label: "dfw-0", what: "Node", href: "#/nodes/dfw-0" },
  { label: "shop/frontend-0", what: "Instance", href: "#/instances/shop/frontend-0" },
];

test("an action is offered for the objects of its kind, once its verb is typed", () => {
  assert.deepEqual(actionsOn(OBJECTS, "scale front"), [{ label: "Scale shop/frontend", what: "action", href: "#/workloads/shop/frontend?do=scale" }]);
  assert.deepEqual(actionsOn(OBJECTS, "cor").map((each) => each.label), ["Cordon dfw-0"]);
  assert.deepEqual(actionsOn(OBJECTS, "sc"), []);
  assert.deepEqual(actionsOn(OBJECTS, "front"), []);
});

test("an action is found by its verb and a part of the name", () => {
  assert.equal(offered([...OBJECTS, ...actionsOn(OBJECTS, "undo frontend")], "undo frontend")[0]?.label, "Undo rollout of shop/frontend");
});
