// API paths of the kinds that have views of their own.
export const COMPUTE = "/apis/compute.datumapis.com/v1alpha";
export const NETWORKING = "/apis/networking.datumapis.com/v1alpha";
export const METRICS = "/apis/metrics.k8s.io/v1beta1";
export const SUBMARINER = "/apis/submariner.io/v1alpha1";
export const WORKLOAD_NAME = "compute.datumapis.com/workload-name";
export const MOVED_FROM = "compute.datumapis.com/moved-from";
export const CITY = "topology.datum.net/city-code";
export const CITY_LABEL = "compute.datumapis.com/city-code";

export function named(base: string, plural: string, namespace: string, name: string): string {
  return `${spaced(base, plural, namespace)}/${encodeURIComponent(name)}`;
}

export function spaced(base: string, plural: string, namespace: string): string {
  return `${base}${namespace ? `/namespaces/${encodeURIComponent(namespace)}` : ""}/${plural}`;
}
