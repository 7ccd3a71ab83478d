import assert from "node:assert/strict";
import { test } from "node:test";
import { capacityOf, capacityText } from "./capacity.ts";

test("used of allocatable is summed over Locations and nodes", () => {
  const found = capacityOf([{ cpu: "1000", memory: "512Gi" }, { cpu: "168", memory: "1Ti" }], [{ cpu: "1500m", memory: "1Gi" }, { cpu: "40", memory: "2Gi" }]);
  assert.deepEqual(found?.map((each) => each.resource), ["cpu", "memory"]);
  assert.deepEqual(found?.map(capacityText), ["42 of 1,168", "3 of 1,536"]);
});

test("a planet without measurements or capacity has none", () => {
  assert.equal(capacityOf([], [{ cpu: "1" }]), null);
  assert.equal(capacityOf([{ cpu: "1", memory: "1Gi" }], []), null);
  assert.equal(capacityOf([{}], [{ cpu: "1" }]), null);
});
