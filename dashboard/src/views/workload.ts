// A Workload and its parts, as far as the views read them.
import type { Revision } from "../logic/timeline.ts";

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  lastTransitionTime?: string;
}

export interface Workload {
  apiVersion: string;
  kind: string;
  metadata: { uid: string; name: string; namespace: string; generation: number; labels?: Record<string, string>; annotations?: Record<string, string> };
  spec: {
    template: { spec?: { runtime?: { sandbox?: { containers?: { image: string }[] } }; volumes?: { disk?: { template?: { spec?: { populator?: { image?: { name: string } } } } } }[] } };
    placements?: { name: string; cityCodes?: string[]; scaleSettings?: { minReplicas?: number; maxReplicas?: number } }[];
    rollout?: { waves?: string; minReadySeconds?: number };
    paused?: boolean;
  };
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

/** The images of its containers, or those that the disks of its machine begin with. */
export function imagesOf({ spec: { template } }: Workload): string[] {
  const containers = template.spec?.runtime?.sandbox?.containers ?? [];
  const disks = (template.spec?.volumes ?? []).map((each) => each.disk?.template?.spec?.populator?.image?.name ?? "");
  return [...new Set(containers.length ? containers.map((each) => each.image) : disks)].filter(Boolean);
}
