// Events of an object, or of all objects of one name, such as an instance and its Pod.
import { visible } from "../logic/text.ts";
import { timeline } from "../logic/timeline.ts";
import { Moments, useEvents } from "../parts/moments.tsx";
import { Failed, Loading } from "../parts/states.tsx";
import { useLoaded } from "../state/loaded.ts";

const METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

/** Events that the server selects, optionally only those about `kinds`. */
export function Events({ namespace, name, selector, kinds }: { namespace: string; name: string; selector: string; kinds?: readonly string[] }) {
  const { value, failure, again } = useEvents(namespace, selector);
  if (!value) return failure ? <Failed failure={failure} again={again} /> : <Loading />;
  const theirs = value.items.filter((each) => !kinds || kinds.includes(each.involvedObject.kind ?? ""));
  return <section aria-label={`Events of ${visible(name)}`}><Moments what="Events" moments={timeline(theirs, [])} /></section>;
}

/** Events of one object, without those of an earlier object of the same name. */
export function EventsOfOne({ path, namespace, name }: { path: string; namespace: string; name: string }) {
  const { value, failure, again } = useLoaded<{ metadata: { uid: string } }>(path, 0, METADATA);
  if (!value) return failure ? <Failed failure={failure} again={again} /> : <Loading />;
  const node = path.startsWith("/api/v1/nodes/"); // kubelets give a Node's events its name as uid
  const selector = node ? `involvedObject.kind=Node,involvedObject.name=${name}` : `involvedObject.uid=${value.metadata.uid}`;
  return <Events namespace={namespace} name={name} selector={selector} />;
}
