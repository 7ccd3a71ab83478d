// What the server tells of an object and of what bears its name, such as the Pod of an instance.
import { visible } from "../logic/text.ts";
import { timeline } from "../logic/timeline.ts";
import { Moments, useEvents } from "../parts/moments.tsx";
import { Failed, Loading } from "../parts/states.tsx";

export function Events({ namespace, name, kinds }: { namespace: string; name: string; kinds: readonly string[] }) {
  const { value, failure, again } = useEvents(namespace, `involvedObject.name=${name}`);
  if (!value) return failure ? <Failed failure={failure} again={again} /> : <Loading />;
  const theirs = value.items.filter((each) => kinds.includes(each.involvedObject.kind ?? ""));
  return <section aria-label={`Events of ${visible(name)}`}><Moments what="Events" moments={timeline(theirs, [])} /></section>;
}
