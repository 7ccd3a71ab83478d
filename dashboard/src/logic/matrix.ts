// The reachability matrix of a network: workloads as rows and columns, and the port of each question.

export const MOST = 50;

interface Port {
  name?: string;
  port?: number;
  protocol?: string;
}

export interface WorkloadSpec {
  metadata: { namespace: string; name: string };
  spec: {
    template: {
      spec: {
        networkInterfaces?: { network?: { namespace?: string; name?: string } }[];
        runtime?: { sandbox?: { containers?: { ports?: Port[] }[] }; virtualMachine?: { ports?: Port[] } };
      };
    };
  };
}

export interface Member {
  name: string;
  port: string;
  protocol: string;
}

/** Workloads with an interface on the network, by name, those with `filter` in their name; each with the first port that it declares. */
export function members(workloads: WorkloadSpec[], namespace: string, network: string, filter = ""): Member[] {
  const on = (each: WorkloadSpec) =>
    (each.spec.template.spec.networkInterfaces ?? []).some((one) => one.network?.name === network && (one.network.namespace || each.metadata.namespace) === namespace);
  return workloads
    .filter((each) => on(each) && each.metadata.namespace === namespace && each.metadata.name.includes(filter))
    .map((each) => ({ name: each.metadata.name, ...firstPort(each) }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

function firstPort(workload: WorkloadSpec): { port: string; protocol: string } {
  const runtime = workload.spec.template.spec.runtime;
  const ports = [...(runtime?.sandbox?.containers ?? []).flatMap((each) => each.ports ?? []), ...(runtime?.virtualMachine?.ports ?? [])];
  const [first] = ports;
  return { port: first?.port ? String(first.port) : "", protocol: first?.protocol ?? "TCP" };
}
