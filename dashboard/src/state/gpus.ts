// The GPUs of a node by the metrics of its agent, which take the right to `get nodes/proxy`.
import { text, type Asked } from "../api/requests.ts";
import { gpusIn, type Gpu } from "../logic/gpus.ts";
import { useLoaded } from "./loaded.ts";
import { useVerdict } from "./rights.ts";

const EVERY = 15_000;

export interface NodeGpus {
  /** Null until they are known. */
  gpus: Gpu[] | null;
  /** Why they are not; may be empty. */
  why: string;
}

/** With an empty name nothing is asked for. */
export function useGpus(node: string): NodeGpus {
  const refusal = useVerdict({ verb: "get", group: "", resource: "nodes", subresource: "proxy", namespace: "", name: node });
  const { value, failure } = useLoaded<Gpu[]>(node && refusal === "" ? `/api/v1/nodes/${encodeURIComponent(node)}/proxy/metrics` : "", EVERY, "text/plain", read);
  return { gpus: value, why: refusal || (value === null && failure ? failure.message : "") };
}

async function read(path: string, asked: Asked): Promise<Gpu[]> {
  return gpusIn(await text(path, asked));
}
