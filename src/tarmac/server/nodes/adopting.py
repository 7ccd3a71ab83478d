"""A pod that runs becomes the pod that is stored: as its node has it, uid and node included.

Its Instance owns it. One that is missing is made again of its deployment's template, under the uid that the pod knows;
where the deployment is not in the store either, the pod is nobody's, and stays until somebody deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import LABEL_DEPLOYMENT_UID, LABEL_INSTANCE_INDEX
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.declare import encode
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LocationReference
from tarmac.decide.children.instances import instance_document
from tarmac.decide.rollout.template import template_hash
from tarmac.server.encoding import encode_object
from tarmac.server.reader import Reader
from tarmac.server.restored import RestoredConflict

_PODS = "core/pods"
_INSTANCES = "compute.datumapis.com/instances"
_DEPLOYMENTS = "compute.datumapis.com/workloaddeployments"


async def adopt(reader: Reader, catalog: Catalog, conflict: RestoredConflict) -> str:
    """Store it; what was done, for people. Repeating it after a failure goes on. Raises StoreError."""
    pod = msgspec.json.decode(msgspec.json.encode(conflict.pod))
    pod["spec"]["nodeName"] = conflict.node
    told = await _give_owner(reader, catalog, pod)
    resource = catalog.find("", "v1", "pods")
    assert resource is not None, "pods are always served"
    key, store = f"{conflict.namespace}/{conflict.name}", reader.store
    value, present = encode_object(pod, resource), store.head(_PODS, key)
    if present is not None and (reader.get(_PODS, key) or {})["metadata"]["uid"] == pod["metadata"]["uid"]:
        await store.update(_PODS, key, value, present.revision)
    else:
        if present is not None:  # another pod: whoever watches must see that it has gone
            await store.delete(_PODS, key, present.revision)
        await store.create(_PODS, key, value)
    return f"{key} is stored as it runs on {conflict.node}; {told}"


async def _give_owner(reader: Reader, catalog: Catalog, pod: JsonObject) -> str:
    owners = pod["metadata"].get("ownerReferences") or []
    owner = next((each for each in owners if each.get("kind") == "Instance"), None)
    if owner is None:
        return "no Instance owns it"
    key = f"{pod['metadata']['namespace']}/{owner['name']}"
    present = reader.get(_INSTANCES, key)
    if present is not None:
        owner["uid"] = present["metadata"]["uid"]
        return "its Instance owns it"
    made = _made_again(reader, pod, owner["uid"])
    if made is None:
        # The garbage collector would end a pod whose owner is not there.
        left = [each for each in owners if each is not owner]
        pod["metadata"] = {**pod["metadata"], "ownerReferences": left}
        if not left:
            del pod["metadata"]["ownerReferences"]
        return (
            "its Instance and its deployment are not in the store, so nobody owns it: delete it when it is not needed"
        )
    resource = catalog.find("compute.datumapis.com", "v1alpha", "instances")
    assert resource is not None, "instances are always served"
    await reader.store.create(_INSTANCES, key, encode_object(made, resource))
    return "its Instance was made again of its deployment's template"


def _made_again(reader: Reader, pod: JsonObject, uid: str) -> JsonObject | None:
    own, labels = pod["metadata"], pod["metadata"].get("labels") or {}
    index, place = labels.get(LABEL_INSTANCE_INDEX, ""), (pod["spec"].get("nodeSelector") or {}).get(LABEL_LOCATION)
    deployment = next(_deployments(reader, own["namespace"], labels.get(LABEL_DEPLOYMENT_UID, "")), None)
    if deployment is None or not index.isdecimal() or not place:
        return None
    hash_ = template_hash(deployment.spec.template)
    made: Instance = instance_document(deployment, LocationReference(place), int(index), hash_, (), {})
    document = encode(made)
    document["metadata"] |= {"name": own["name"], "uid": uid, "generation": 1}
    document["metadata"]["creationTimestamp"] = own.get("creationTimestamp")
    return document


def _deployments(reader: Reader, namespace: str, uid: str) -> Iterator[WorkloadDeployment]:
    for each in reader.list(_DEPLOYMENTS, f"{namespace}/"):
        if each["metadata"]["uid"] == uid:
            yield msgspec.convert(each, WorkloadDeployment)
