// Dependents of an object, among the kinds that the user may list; only metadata is requested.
import { baseOf, kinds, type Kind } from "../api/discovery.ts";
import { Failure, json } from "../api/requests.ts";
import type { Owned } from "../logic/ending.ts";
import { CITY_LABEL, spaced } from "../views/paths.ts";

const METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const AT_ONCE = 4; // a browser has six connections per host; other requests need some

interface Listed {
  items: { metadata: { uid: string; name: string; namespace?: string; labels?: Record<string, string>; ownerReferences?: { uid: string }[] } }[] | null;
}

/** The objects of a namespace, or of all; and the kinds that the user may not list. */
export async function everything(namespace: string): Promise<{ objects: Owned[]; unseen: string[] }> {
  // Kinds without the verb delete, such as metrics, are left out; so are events, which have no owner.
  const ends = (each: Kind) => ["list", "delete"].every((verb) => each.verbs.includes(verb)) && each.kind !== "Event";
  const waiting = (await kinds()).filter((each) => ends(each) && (!namespace || each.namespaced));
  const objects: Owned[] = [];
  const unseen: string[] = [];
  const work = async () => {
    for (let kind = waiting.pop(); kind; kind = waiting.pop()) {
      try {
        objects.push(...(await listed(kind, namespace)));
      } catch (error) {
        if (!(error instanceof Failure) || error.code >= 500) throw error;
        unseen.push(kind.plural);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { objects, unseen: unseen.sort() };
}

async function listed(kind: Kind, namespace: string): Promise<Owned[]> {
  const { items } = await json<Listed>(spaced(baseOf(kind), kind.plural, namespace), { accept: METADATA });
  return (items ?? []).map(({ metadata }) => ({
    kind: kind.kind, uid: metadata.uid, namespace: metadata.namespace ?? "", name: metadata.name, city: metadata.labels?.[CITY_LABEL] ?? "",
    owners: (metadata.ownerReferences ?? []).map((each) => each.uid),
  }));
}
