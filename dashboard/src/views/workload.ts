// A Workload and its parts, as far as the views read them.
import type { Revision } from "../logic/timeline.ts";

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
}

export interface Workload {
  apiVersion: string;
  kind: string;
  metadata: { uid: string; name: string; namespace: string; generation: number };
  spec: { template: unknown; paused?: boolean };
  status?: {
    conditions?: Condition[];
    revisions?: Revision[];
    rollout?: {
      revision: number; wave: number; waves: number; updatedCities?: number; cities?: number;
      failure?: { city: string; instance?: string; reason: string; message: string };
    };
  };
}

export interface Deployment {
  metadata: { uid: string; name: string };
  spec: { cityCode: string; placementName: string; replicas?: number; scaleSettings: { minReplicas?: number; maxReplicas?: number } };
  status?: {
    conditions?: Condition[];
    revision?: string; replicas?: number; updatedReplicas?: number; readyReplicas?: number; desiredReplicas?: number;
    startFailure?: { instance: string; reason: string; message: string };
    scaling?: { metrics?: { name: string; value?: string; target?: string; replicas?: number }[]; wanted?: number; time?: string };
  };
}

export interface Parts {
  path: string;
  workload: Workload;
  deployments: Deployment[];
}
