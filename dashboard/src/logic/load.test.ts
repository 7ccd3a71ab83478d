import assert from "node:assert/strict";
import { test } from "node:test";
import { gpusOf, loadOf, loadText } from "./load.ts";

const RESOURCES = [
  { resource: "cpu", reserved: [], allocatable: "32", committed: "6250m", used: "80m" },
  { resource: "memory", reserved: [], allocatable: "128Gi", committed: "9410Mi" },
  { resource: "datumcloud.com/nvidia-tesla-a100", reserved: [], allocatable: "8", committed: "6" },
  { resource: "nvidia.com/gpu", reserved: [], allocatable: "2", committed: "0" },
];

test("the load of a resource is committed of allocatable", () => {
  const cpu = loadOf(RESOURCES, "cpu");
  assert.ok(cpu);
  assert.deepEqual([cpu.allocatable, cpu.committed, cpu.used, loadText(cpu)], [32, 6.25, 0.08, "6.3 of 32"]);
  const memory = loadOf(RESOURCES, "memory");
  assert.equal(memory && loadText(memory), "9.2Gi of 128Gi");
  assert.equal(loadOf(RESOURCES, "pods"), null);
});

test("GPUs of all models are counted together", () => {
  const gpus = gpusOf(RESOURCES);
  assert.equal(gpus && loadText(gpus), "6 of 10");
  assert.equal(gpusOf(RESOURCES.slice(0, 2)), null);
});
