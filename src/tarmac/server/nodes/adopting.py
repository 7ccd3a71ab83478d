"""Stores a running pod as its node reports it, uid and node included.

The node may be hostile: the pod is decoded, validated and admitted as if the deciding user created it. Annotations that
only controllers write are kept: interfaces and images if the store agrees with them (`adoptedinterfaces`,
`adoptedimages`), first-boot configuration and mount paths as they are, since they concern the machine alone.

Its Instance owns it. A missing Instance is recreated from its deployment's template, under the uid in the pod's owner
reference; if the deployment is missing too, the pod has no owner and stays until a user deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.machineimage import (
    LocalMachineImage,
    MachineImage,
    MachineImageSpec,
    described_image,
    image_object_name,
    image_owner,
)
from tarmac.api.compute.names import (
    ANNOTATION_MACHINE_IMAGES,
    LABEL_DEPLOYMENT_UID,
    LABEL_INSTANCE_INDEX,
    MACHINE_ANNOTATIONS,
)
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.declare import decode, encode
from tarmac.api.decode import check_object
from tarmac.api.kubernetes.core.pods.validation import validate_pod
from tarmac.api.networking.names import ANNOTATION_INTERFACES, LABEL_LOCATION
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LocationReference
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.derived.instances import instance_document
from tarmac.decide.rollout import template_hash
from tarmac.server.admission.chain import AdmissionChain, Attributes
from tarmac.server.encoding import encode_object
from tarmac.server.nodes.adoptedinterfaces import check_interfaces
from tarmac.server.reader import Reader
from tarmac.server.restored import RestoredConflict
from tarmac.server.security.users import User
from tarmac.server.storage import metadata as meta

_PODS = "core/pods"
_INSTANCES = "compute.datumapis.com/instances"
_DEPLOYMENTS = "compute.datumapis.com/workloaddeployments"
_HELD = (ANNOTATION_INTERFACES, *MACHINE_ANNOTATIONS)
"""Only controllers write these (`server/admission/controllers`), so admission would reject them from the user."""

_IMAGES, _LOCAL = "compute.datumapis.com/machineimages", "compute.datumapis.com/localmachineimages"
_FIELD = f"metadata.annotations[{ANNOTATION_MACHINE_IMAGES}]"
_DECIDING = ("source", "checksum")


async def adopt(
    reader: Reader, catalog: Catalog, admission: AdmissionChain, conflict: RestoredConflict, user: User
) -> str:
    """Store the pod and return a sentence for people. Safe to repeat after a failure. Raises ApiError, StoreError."""
    resource = catalog.find("", "v1", "pods")
    assert resource is not None, "pods are always served"
    key, store = f"{conflict.namespace}/{conflict.name}", reader.store
    pod = _admitted(reader, admission, resource, conflict, user)
    # The Instance is stored first: if the server is killed before the pod is stored, a repeated adoption finds it.
    told = await _give_owner(reader, catalog, pod)
    value, present = encode_object(pod, resource), store.head(_PODS, key)
    # The same uid: the node's pod is a version of the stored one, so watchers see a change and no deletion.
    if present is not None and (reader.get(_PODS, key) or {})["metadata"]["uid"] == pod["metadata"]["uid"]:
        # Raises Conflict if the pod changed since it was read: the user decides again on the new state.
        await store.update(_PODS, key, value, present.revision)
    else:
        if present is not None:  # a different pod: watchers must see its deletion
            # With the revision that was read: a pod that changed meanwhile is not the one the user decided about.
            await store.delete(_PODS, key, present.revision)
        # A kill between the delete and this line leaves no pod of that name; the conflict entry stays, so the adoption
        # can be repeated.
        await store.create(_PODS, key, value)
    return f"{key} is stored as it runs on {conflict.node}; {told}"


def _admitted(
    reader: Reader, admission: AdmissionChain, resource: Resource, conflict: RestoredConflict, user: User
) -> JsonObject:
    """Return the pod as it may be stored. Raises ApiError with the invalid fields."""
    pod: JsonObject = msgspec.json.decode(msgspec.json.encode(conflict.pod))
    # Decoded by the server's own schema: the report is a node's word, and the node may be hostile.
    check_object(resource, pod, "Ignore")
    # From the conflict, not from the report: a node must not have a pod adopted onto another one.
    pod["spec"]["nodeName"] = conflict.node
    resource.strategy.default(pod)
    errors = FieldErrors()
    check_interfaces(reader, pod, errors)
    check_images(reader, pod, errors)
    annotations = pod["metadata"].get("annotations") or {}
    held = {name: annotations[name] for name in _HELD if name in annotations}
    pod["metadata"]["annotations"] = {name: text for name, text in annotations.items() if name not in held}
    place = (conflict.namespace, conflict.name)
    attributes = Attributes("CREATE", resource, "", *place, pod, _replaced(reader, "/".join(place)), user)
    admission.admit(attributes)
    with errors:
        meta.validate(resource, pod["metadata"], errors)
        validate_pod(pod, errors)
    if errors:
        raise invalid(resource.group, resource.kind, conflict.name, errors)
    admission.validate(attributes)
    # Restored only after admission, which rejects them from users; `check_interfaces` has compared them with the store.
    pod["metadata"]["annotations"] |= held
    return pod


def _replaced(reader: Reader, key: str) -> JsonObject | None:
    """Return the stored pod of that name, which quotas have counted, without controllers' annotations."""
    old = reader.get(_PODS, key)
    if old is None:
        return None
    annotations = old["metadata"].get("annotations") or {}
    kept = {name: text for name, text in annotations.items() if name not in _HELD}
    return {**old, "metadata": {**old["metadata"], "annotations": kept}}


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
        # Without this, the garbage collector would delete the pod, because its owner does not exist.
        left = [each for each in owners if each is not owner]
        pod["metadata"] = {**pod["metadata"], "ownerReferences": left}
        if not left:
            del pod["metadata"]["ownerReferences"]
        return (
            "its Instance and its deployment are not in the store, so nobody owns it: delete it when it is not needed"
        )
    resource = catalog.find("compute.datumapis.com", "v1alpha", "instances")
    assert resource is not None, "instances are always served"
    # Fails if its controller has made one meanwhile; the repeated adoption then finds that one.
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


# Checks the images of a virtual machine that a node reports after a restore: the catalogue must have them.
#
# A node fetches images with its own rights, and the annotation that names them is kept although only a controller may
# write it. A hostile node could otherwise have a machine adopted whose image nobody with that right chose.


def check_images(reader: Reader, pod: JsonObject, errors: FieldErrors) -> None:
    """Add an error for each image that is not the one of its name in the store."""
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_MACHINE_IMAGES)
    if text is None:
        return
    try:
        images = msgspec.json.decode(text, type=dict[str, JsonObject])
    except (msgspec.DecodeError, UnicodeError) as error:
        errors.invalid(_FIELD, text[:200], f"cannot be read: {error}")
        return
    for name, said in images.items():
        known = _known(reader, name, pod["metadata"]["namespace"])
        stored = encode(known) if known is not None else {}
        if known is None or any(said.get(field) != stored.get(field) for field in _DECIDING):
            why = f"{described_image(name)} has not this source and checksum"
            errors.invalid(_FIELD, name[:200], f"{why}; end this one with `tarmac restored remove`")


def _known(reader: Reader, name: str, namespace: str) -> MachineImageSpec | None:
    owner = image_owner(name)
    if not owner:
        found = reader.get(_IMAGES, image_object_name(name))
        return decode(MachineImage, found).spec if found is not None else None
    found = reader.get(_LOCAL, f"{owner}/{name.rpartition(':')[2]}") if owner == namespace else None
    return decode(LocalMachineImage, found).spec.for_nodes(owner) if found is not None else None
