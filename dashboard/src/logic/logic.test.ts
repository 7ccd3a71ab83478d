import { test } from "node:test";
import assert from "node:assert/strict";
import { age, cell, visible } from "./text.ts";
import { link, parse } from "./routes.ts";
import { fraction, health, worst } from "./health.ts";

test("control and bidirectional characters are seen, not obeyed", () => {
  assert.equal(visible("a\u001b[31mb\u202ec\n"), "a␛[31mb⟨202e⟩c␊");
  assert.equal(visible("a\nb\tc", true), "a\nb\tc");
});

test("a cell is bounded and never says null", () => {
  assert.equal(cell("x".repeat(5000)).length, 1001);
  assert.equal(cell(null), "");
  assert.equal(cell(0), "0");
});

test("ages read as kubectl's", () => {
  const now = Date.parse("2026-11-17T12:00:00Z");
  for (const [seconds, expected] of [[5, "5s"], [119, "119s"], [125, "2m5s"], [1200, "20m"], [3 * 3600, "3h"], [9 * 3600, "9h"], [72 * 3600, "3d"]] as const)
    assert.equal(age(new Date(now - seconds * 1000).toISOString(), now), expected);
  assert.equal(age("", now), "");
});

test("a link leads back to what it was made of", () => {
  const route = parse(link("any", ["core", "v1", "pods", "a b", "x/y"], { q: "é&=", empty: "" }));
  assert.deepEqual([route.view, route.parts], ["any", ["core", "v1", "pods", "a b", "x/y"]]);
  assert.equal(route.query.get("q"), "é&=");
  assert.equal(route.query.has("empty"), false);
  assert.equal(parse("").view, "planet");
  assert.deepEqual(parse("#/workloads/%E0%A4%A").parts, ["%E0%A4%A"]);
});

test("health is the worst of what is there", () => {
  assert.equal(health(3, 3), "yes");
  assert.equal(health(1, 3), "wait");
  assert.equal(health(0, 3), "no");
  assert.equal(health(undefined, 3), "unknown");
  assert.equal(worst(["yes", "wait"]), "wait");
  assert.equal(worst([]), "unknown");
  assert.deepEqual(fraction("2/3"), [2, 3]);
  assert.equal(fraction("2"), null);
});
