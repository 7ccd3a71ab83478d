import assert from "node:assert/strict";
import { test } from "node:test";
import { figuresOf, gpuAccounts, gpuSentence, gpusIn } from "./gpus.ts";

const LABELS = 'gpu="G0",index="0",model="NVIDIA H200",namespace="ml",pod="train-0"';
const METRICS = [
  "# TYPE tarmac_gpu_healthy gauge",
  'tarmac_gpu_healthy{gpu="G10",index="10",model="NVIDIA H200",namespace="",pod="",reason="XID 79: \\"gone\\"\\n"} 0',
  `tarmac_gpu_healthy{${LABELS},reason=""} 1`,
  `tarmac_gpu_utilization_ratio{${LABELS}} 0.6`,
  `tarmac_gpu_memory_bytes{${LABELS},state="used"} 51539607552`,
  `tarmac_gpu_memory_bytes{${LABELS},state="total"} 85899345920`,
  `tarmac_gpu_power_watts{${LABELS}} NaN`,
  "process_open_fds 3",
].join("\n");

test("each GPU of a node has its holder, its health and its figures", () => {
  const [first, second, ...more] = gpusIn(METRICS);
  assert.ok(first && second);
  assert.deepEqual(more, []);
  assert.deepEqual([first.namespace, first.pod, first.reason, figuresOf(first)], ["ml", "train-0", "", "60% busy, 48 of 80Gi"]);
  assert.deepEqual([second.index, second.pod, second.reason, figuresOf(second)], ["10", "", 'XID 79: "gone" ', ""]);
});

test("metrics of a node that lies stay few, and take no time", () => {
  assert.equal(gpusIn(Array.from({ length: 5000 }, (_, each) => `tarmac_gpu_healthy{gpu="g${each}"} 1`).join("\n")).length, 64);
  const began = performance.now();
  assert.deepEqual(gpusIn(`tarmac_gpu_healthy{${'a="'.repeat(100_000)}\ntarmac_gpu_healthy{${'a="b"'.repeat(100_000)}} \ntarmac_gpu_healthy 1`), []);
  assert.ok(performance.now() - began < 2000);
});

test("a ledger counts healthy, held and free GPUs", () => {
  const resources = [
    { resource: "cpu", reserved: [], capacity: "8", allocatable: "8" },
    { resource: "datumcloud.com/nvidia-h200", reserved: [], capacity: "4", allocatable: "3", committed: "2" },
    { resource: "datumcloud.com/nvidia-tesla-a100", reserved: [], capacity: "0", allocatable: "0" },
  ];
  assert.deepEqual(gpuAccounts(resources).map(gpuSentence), ["datumcloud.com/nvidia-h200: 4 in all, 1 unhealthy, 2 held, 1 free."]);
});
