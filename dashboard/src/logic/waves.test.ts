import assert from "node:assert/strict";
import { test } from "node:test";
import { waveOf, wavesOf, type WaveCity } from "./waves.ts";

const city = (code: string, order: number, more: Partial<WaveCity> = {}): WaveCity =>
  ({ city: code, order, reached: false, ready: 1, updated: 0, desired: 1, failed: false, ...more });

test("waves double", () => {
  assert.deepEqual([0, 1, 2, 3, 6, 7].map((each) => waveOf(each, false)), [1, 2, 2, 3, 3, 4]);
  assert.deepEqual([0, 5].map((each) => waveOf(each, true)), [1, 1]);
});

test("cities that have the revision come first, then incomplete ones, in the order of placements", () => {
  const cities = [city("AMS", 0), city("BOM", 1, { reached: true }), city("CDG", 2), city("DFW", 3, { ready: 0 })];
  assert.deepEqual(wavesOf(cities, false).map((each) => [each.number, each.cities.map(({ city: code }) => code)]),
    [[1, ["BOM"]], [2, ["DFW", "AMS"]], [3, ["CDG"]]]);
});
