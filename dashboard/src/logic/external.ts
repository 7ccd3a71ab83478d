// An external service as paths: Pods of a Service leave with a source address, which a gateway owns.

export interface External {
  metadata: { namespace: string; name: string; uid: string };
  spec: { targetIP: string };
  status?: {
    addresses?: string[];
    hostname?: string;
    ports?: { dialPort: number; targetPort: number; protocol: string }[];
    sources?: Source[];
  };
}

interface Source {
  service: { namespace?: string; name: string };
  sourceIPs?: string[];
  gateway?: string;
  location?: string;
  podsMatched?: number;
  podsProgrammed?: number;
  inboundEndpoints?: number;
  reason?: string;
  message?: string;
}

export interface Connection {
  pod: string;
  node: string;
  protocol: string;
  direction: string;
  dialled: string;
  target: string;
  sourceIP: string;
  sourcePort: number;
  gateway: string;
  bytesOut: number;
  bytesIn: number;
  since: string;
}

export interface Address {
  metadata: { name: string };
  spec: { address?: string };
  status?: { owner?: { gateway: string; epoch?: number } | null; lastFailover?: string | null };
}

export interface Way {
  service: string;
  address: string;
  gateway: string;
  location: string;
  pods: string;
  inbound: number;
  connections: number;
  out: number;
  in: number;
  owners: number;
  failover: string;
  reason: string;
  message: string;
}

/** One path for each address of each source; a source without an address has a path without an end. */
export function waysOf(external: External, connections: Connection[], addresses: Address[]): Way[] {
  return (external.status?.sources ?? []).flatMap((source) =>
    (source.sourceIPs?.length ? source.sourceIPs : [""]).map((address) => wayOf(external, source, address, connections, addresses)));
}

function wayOf(external: External, source: Source, address: string, connections: Connection[], addresses: Address[]): Way {
  const own = connections.filter((each) => address !== "" && each.sourceIP === address);
  const status = addresses.find((each) => (each.spec.address ?? each.metadata.name) === address)?.status;
  return {
    service: `${source.service.namespace || external.metadata.namespace}/${source.service.name}`, address,
    gateway: source.gateway ?? "", location: source.location ?? "",
    pods: `${source.podsProgrammed ?? 0}/${source.podsMatched ?? 0}`, inbound: source.inboundEndpoints ?? 0,
    connections: own.length, out: sum(own, "bytesOut"), in: sum(own, "bytesIn"),
    owners: status?.owner?.epoch ?? 0, failover: status?.lastFailover ?? "", reason: source.reason ?? "", message: source.message ?? "",
  };
}

function sum(connections: Connection[], field: "bytesOut" | "bytesIn"): number {
  return connections.reduce((total, each) => total + each[field], 0);
}

/** A number of bytes as people say it. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, count > 0 ? Math.floor(Math.log2(count) / 10) : 0);
  const value = count / 1024 ** power;
  return `${power && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}
