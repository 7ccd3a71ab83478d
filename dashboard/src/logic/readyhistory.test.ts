import assert from "node:assert/strict";
import { test } from "node:test";
import { readyBefore, readyLines } from "./readyhistory.ts";

const samples = [12, 12, 9, 0, 6].map((ready, minute) => ({ timestamp: `2026-11-17T06:0${minute}:00Z`, ready, desired: 12 }));

test("ready and desired instances become two lines", () => {
  const found = readyLines(samples, 100, 12);
  assert.equal(found?.ready, "0,0 25,0 50,3 75,12 100,6");
  assert.equal(found?.desired, "0,0 25,0 50,0 75,0 100,0");
});

test("a line of fewer than five samples is not drawn", () => {
  assert.equal(readyLines(samples.slice(1), 100, 12), null);
  assert.equal(readyLines([], 100, 12), null);
});

test("a Workload that wants no instance has a line at the bottom", () => {
  assert.equal(readyLines(samples.map((each) => ({ ...each, ready: 0, desired: 0 })), 100, 12)?.ready, "0,12 25,12 50,12 75,12 100,12");
});

test("the oldest sample is the comparison", () => {
  assert.equal(readyBefore(samples, () => "4m"), "12/12 4m ago");
  assert.equal(readyBefore([], () => ""), "");
});
