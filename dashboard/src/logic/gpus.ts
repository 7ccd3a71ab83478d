// GPUs of a node: counts from its ledger, and each one from the metrics of its agent, which are not trusted.
import { amount, type Account } from "./ledger.ts";
import { isGpu } from "./load.ts";

export interface Gpu {
  uuid: string;
  index: string;
  model: string;
  /** Why it is unhealthy; empty for a healthy one. */
  reason: string;
  /** The pod that has it, which an Instance shares its name with; empty for a free one. */
  namespace: string;
  pod: string;
  /** 0 to 1. These are null where the node does not know them. */
  utilization: number | null;
  memoryUsed: number | null;
  memoryTotal: number | null;
  watts: number | null;
  celsius: number | null;
}

const MOST_LINES = 20_000;
const LONGEST_LINE = 10_000;
const MOST_GPUS = 64;
const LINE = /^tarmac_gpu_([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\} (\S+)$/;
const LABEL = /([a-z]+)="((?:[^"\\]|\\.)*)"/g;
const FIGURES = new Map<string, "utilization" | "memoryUsed" | "memoryTotal" | "watts" | "celsius">([
  ["utilization_ratio", "utilization"], ["memory_bytesused", "memoryUsed"], ["memory_bytestotal", "memoryTotal"], ["power_watts", "watts"], ["temperature_celsius", "celsius"],
]);

/** The GPUs in the metrics of a node, by their number. */
export function gpusIn(metrics: string): Gpu[] {
  const found = new Map<string, Gpu>();
  for (const line of metrics.split("\n", MOST_LINES)) {
    const [, name, labelled, number] = LINE.exec(line.startsWith("tarmac_gpu_") && line.length < LONGEST_LINE ? line : "") ?? [];
    if (name === undefined || labelled === undefined) continue;
    const labels = new Map([...labelled.matchAll(LABEL)].map(([, key = "", value = ""]): [string, string] => [key, unescaped(value)]));
    const label = (key: string) => labels.get(key) ?? "";
    if (found.size >= MOST_GPUS && !found.has(label("gpu"))) continue;
    const gpu = found.get(label("gpu")) ?? {
      uuid: label("gpu"), index: label("index"), model: label("model"), reason: "", namespace: label("namespace"), pod: label("pod"),
      utilization: null, memoryUsed: null, memoryTotal: null, watts: null, celsius: null,
    };
    found.set(gpu.uuid, gpu);
    if (name === "healthy") gpu.reason = label("reason");
    const figure = FIGURES.get(name + label("state"));
    if (figure && Number.isFinite(Number(number))) gpu[figure] = Number(number);
  }
  return [...found.values()].sort((a, b) => Number(a.index) - Number(b.index));
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, each: string) => (each === "n" ? " " : each));
}

/** The GPUs among the resources of a ledger. */
export function gpuAccounts(resources: readonly Account[]): Account[] {
  return resources.filter((each) => isGpu(each.resource) && amount(each.capacity) > 0);
}

/** Such as `datumcloud.com/nvidia-h200: 4 in all, 1 unhealthy, 2 held, 1 free.` */
export function gpuSentence(account: Account): string {
  const [all, healthy, held] = [account.capacity, account.allocatable, account.committed].map((each) => amount(each) || 0) as [number, number, number];
  return `${account.resource}: ${all} in all, ${Math.max(0, all - healthy)} unhealthy, ${held} held, ${Math.max(0, healthy - held)} free.`;
}

/** The figures in a few words, such as `60% busy, 48 of 80Gi, 400W, 62°C`; empty without any. */
export function figuresOf({ utilization, memoryUsed, memoryTotal, watts, celsius }: Gpu): string {
  const parts = [
    utilization !== null && `${Math.round(100 * utilization)}% busy`, memoryUsed !== null && memoryTotal !== null && memoryOf(memoryUsed, memoryTotal),
    watts !== null && `${Math.round(watts)}W`, celsius !== null && `${Math.round(celsius)}°C`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** One GPU in a line, such as `GPU 0, NVIDIA H200: 60% busy, 48 of 80Gi`. */
export function gpuLine(gpu: Gpu): string {
  return [`GPU ${gpu.index}, ${gpu.model}`, [gpu.reason, figuresOf(gpu)].filter(Boolean).join("; ")].filter(Boolean).join(": ");
}

function memoryOf(used: number, total: number): string {
  const gibi = (bytes: number) => Math.round((10 * bytes) / 2 ** 30) / 10;
  return `${gibi(used)} of ${gibi(total)}Gi`;
}
