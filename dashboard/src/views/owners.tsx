// The owners of an object, such as the Deployment of a ReplicaSet, each with a link to its own page.
import { useEffect, useState } from "preact/hooks";
import { kinds, type Kind } from "../api/discovery.ts";
import { link } from "../logic/routes.ts";
import { visible } from "../logic/text.ts";
import { useLoaded } from "../state/loaded.ts";

const METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
}

interface Owned {
  metadata: { ownerReferences?: Owner[] };
}

export function Owners({ path, namespace }: { path: string; namespace: string }) {
  const { value } = useLoaded<Owned>(path, 0, METADATA);
  const [served, setServed] = useState<Kind[]>([]);
  const owners = value?.metadata.ownerReferences ?? [];
  const wanted = owners.length > 0;
  useEffect(() => {
    if (wanted) kinds().then(setServed, () => setServed([])); // names without links where discovery fails
  }, [wanted]);
  if (!wanted) return null;
  return (
    <p>
      Owned by{" "}
      {owners.map((each, at) => <span key={each.uid}>{at > 0 && ", "}<One owner={each} served={served} namespace={namespace} /></span>)}
    </p>
  );
}

function One({ owner, served, namespace }: { owner: Owner; served: Kind[]; namespace: string }) {
  const text = `${visible(owner.kind)} ${visible(owner.name)}`;
  const group = owner.apiVersion.includes("/") ? owner.apiVersion.slice(0, owner.apiVersion.indexOf("/")) : "";
  // The version that the group likes best: the owner may have been written by another one.
  const kind = served.find((each) => each.group === group && each.kind === owner.kind);
  if (!kind) return <>{text}</>;
  return <a href={link("any", [group || "core", kind.version, kind.plural, kind.namespaced ? namespace : "-", owner.name])}>{text}</a>;
}
