// The history of a workload: its revisions, its events and those of its cities, and warnings of its instances, the newest first.
import { visible } from "../logic/text.ts";
import { timeline } from "../logic/timeline.ts";
import { Moments, useEvents } from "../parts/moments.tsx";
import { Failed, Loading } from "../parts/states.tsx";
import type { Parts } from "./workload.ts";

export function TimeLine({ workload, deployments }: Parts) {
  const { uid, namespace, name } = workload.metadata;
  const own = useEvents(namespace, `involvedObject.uid=${uid}`);
  const cities = useEvents(namespace, "involvedObject.kind=WorkloadDeployment");
  const instances = useEvents(namespace, "involvedObject.kind=Instance,type=Warning");
  if (own.failure && !own.value) return <Failed failure={own.failure} again={own.again} />;
  if (!own.value) return <Loading />;
  const parts = new Set(deployments.map((each) => each.metadata.name));
  const ours = (of: string) => parts.has(of) || parts.has(of.replace(/-\d+$/, "")); // instances are numbered within their deployment
  const events = [...own.value.items, ...[...(cities.value?.items ?? []), ...(instances.value?.items ?? [])].filter((each) => ours(each.involvedObject.name ?? ""))];
  return (
    <section aria-label={`Time line of ${visible(name)}`}>
      <Moments what="Time line" moments={timeline(events, workload.status?.revisions ?? [])} />
    </section>
  );
}
