import assert from "node:assert/strict";
import { test } from "node:test";
import { citiesOf, lossOf } from "./cities.ts";

const place = (city: string, ready: string) => ({ city, nodes: 3, ready, reason: ready === "True" ? "NodesReady" : "LocationUnreachable" });
const nowhere = () => null;

test("a city of which nothing is heard is lost, in words, whatever is said to be ready there", () => {
  const cities = citiesOf([{ city: "SEA", ready: "2/2", reason: "" }], [place("SEA", "Unknown"), place("DFW", "True"), place("LHR", "False")], new Map(), nowhere);
  assert.deepEqual(cities.map((each) => [each.code, each.state, each.word]), [["DFW", "yes", "Ready"], ["LHR", "no", "No node is ready"], ["SEA", "no", "Lost"]]);
  assert.match(lossOf(cities), /^SEA is lost: /);
  assert.equal(cities[2]?.reason, "LocationUnreachable");
  assert.equal(lossOf(cities.slice(0, 2)), "");
});

test("a city with a second place that is heard of is not lost", () => {
  const [city] = citiesOf([], [place("SEA", "Unknown"), place("SEA", "True")], new Map(), nowhere);
  assert.deepEqual([city?.state, city?.nodes], ["yes", 6]);
});

test("without Locations cities are as what is wanted there, at the place of their codes", () => {
  const wanted = [{ city: "DFW", ready: "1/2", reason: "Busy" }, { city: "DFW", ready: "1/1", reason: "" }, { city: "", ready: "0/1", reason: "" }];
  const cities = citiesOf(wanted, [], new Map(), (code) => (code === "DFW" ? [-97, 33] : null));
  assert.deepEqual(cities, [{ code: "DFW", at: [-97, 33], ready: 2, desired: 3, deployments: 2, nodes: null, state: "wait", word: "Degraded", reason: "Busy" }]);
});
