import { test } from "node:test";
import assert from "node:assert/strict";
import { differences } from "./differences.ts";
import { ending, mustBeTyped, type Owned } from "./ending.ts";
import { HELP, meaning } from "./keys.ts";
import { offered } from "./palette.ts";
import { timeline } from "./timeline.ts";

const plain = { ctrl: false, other: false, typing: false };

test("keys mean what the help says, and nothing while somebody types", () => {
  assert.deepEqual(meaning({ ...plain, key: "k", ctrl: true }, false, false).action, { do: "palette" });
  assert.deepEqual(meaning({ ...plain, key: "k" }, false, true).action, { do: "up" });
  assert.deepEqual(meaning({ ...plain, key: "g" }, false, true), { action: null, going: true });
  assert.deepEqual(meaning({ ...plain, key: "w" }, true, true), { action: { do: "go", letter: "w" }, going: false });
  assert.deepEqual(meaning({ ...plain, key: "w" }, false, true).action, { do: "tab", name: "why" });
  assert.equal(meaning({ ...plain, key: "w", typing: true }, false, true).action, null);
  assert.equal(meaning({ ...plain, key: "w", ctrl: true }, false, true).action, null);
  assert.equal(meaning({ ...plain, key: "q" }, false, true).action, null);
  assert.ok(HELP.some(([keys]) => keys === "Ctrl-K"));
});

test("letters can be switched off, the palette cannot", () => {
  for (const key of ["g", "j", "/", "?", "y"]) assert.deepEqual(meaning({ ...plain, key }, false, false), { action: null, going: false });
  assert.deepEqual(meaning({ ...plain, key: "K", ctrl: true, typing: true }, false, false).action, { do: "palette" });
});

test("the palette offers the beginning of a name before the middle of one", () => {
  const choices = ["shop/web", "web", "cobweb", "nodes"].map((label) => ({ label, what: "" }));
  assert.deepEqual(offered(choices, "web").map((each) => each.label), ["web", "shop/web", "cobweb"]);
  assert.deepEqual(offered(choices, "nds").map((each) => each.label), ["nodes"]);
  assert.equal(offered(choices, "").length, 4);
  assert.deepEqual(offered(choices, "zzz"), []);
  assert.equal(offered(Array.from({ length: 900 }, (_, index) => ({ label: `web-${index}`, what: "" })), "web").length, 50);
});

test("differences are by field, and list elements by their names", () => {
  const template = (image: string, more: object[] = []) => ({ spec: { containers: [...more, { name: "web", image }], n: 1 } });
  assert.deepEqual(differences(template("a:1"), template("a:2")), [{ field: "spec.containers[web].image", before: "a:1", after: "a:2" }]);
  assert.deepEqual(differences(template("a:1"), template("a:1", [{ name: "log", image: "l" }])).map((each) => each.field), ["spec.containers[log].image", "spec.containers[log].name"]);
  assert.deepEqual(differences({ a: [1, 2] }, { a: [1] }), [{ field: "a[1]", before: "2", after: "" }]);
  assert.deepEqual(differences(template("x"), template("x")), []);
});

test("events and revisions are on one axis, the newest first", () => {
  const event = { metadata: { uid: "e" }, involvedObject: { kind: "Instance", name: "web-0" }, type: "Warning", reason: "BackOff", message: "again", count: 3, lastTimestamp: "2026-01-01T00:00:02Z" };
  const moments = timeline([event], [{ number: 1, templateHash: "h", template: "t", created: "2026-01-01T00:00:01Z", completed: "2026-01-01T00:00:03Z" }]);
  assert.deepEqual(moments.map((each) => [each.about, each.reason]), [["Revision 1", "Complete"], ["Instance web-0", "BackOff"], ["Revision 1", "Begun"]]);
  assert.equal(moments[1]?.message, "again (3 times)");
  assert.equal(moments[1]?.warning, true);
});

test("what ends is everything that is owned, however far down, by city", () => {
  const thing = (kind: string, uid: string, owner: string, city = ""): Owned => ({ kind, uid, namespace: "d", name: uid, city, owners: owner ? [owner] : [] });
  const all = [
    thing("Workload", "w", ""), thing("WorkloadDeployment", "d1", "w", "DFW"), thing("Instance", "i1", "d1", "DFW"), thing("Instance", "i2", "d1", "DFW"),
    thing("Instance", "i3", "d2", "SEA"), thing("WorkloadDeployment", "d2", "w", "SEA"), thing("Pod", "p1", "i1"), thing("Instance", "other", "x", "LHR"),
  ];
  assert.deepEqual(ending(["w"], all), { cities: [["DFW", 2], ["SEA", 1]], kinds: [["Workload", 1], ["WorkloadDeployment", 2]], instances: 3 });
  assert.deepEqual(ending(["i1"], all), { cities: [["DFW", 1]], kinds: [], instances: 1 });
  assert.deepEqual(ending(["nowhere"], all), { cities: [], kinds: [], instances: 0 });
  const circle = [thing("A", "a", "b"), thing("B", "b", "a")];
  assert.equal(ending(["a"], circle).kinds.length, 2);
  assert.deepEqual([0, 1, 2].map(mustBeTyped), [false, false, true]);
});
