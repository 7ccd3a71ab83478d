"""Plugins for volumes: the default class, finalizers that protect used objects, and the check of expansion."""

from __future__ import annotations

from tarmac.api.kubernetes.resourcenames import quantity
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_CLAIMS = "core/persistentvolumeclaims"
_VOLUMES = "core/persistentvolumes"
_CLASSES = "storage.k8s.io/storageclasses"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_FINALIZERS = {_CLAIMS: "kubernetes.io/pvc-protection", _VOLUMES: "kubernetes.io/pv-protection"}


class DefaultStorageClass(AdmissionPlugin):
    """Gives a claim without a class the newest default class."""

    name = "DefaultStorageClass"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _CLAIMS and subresource == "" and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        claim = attributes.obj
        assert claim is not None
        annotated = _CLASS_ANNOTATION in (claim["metadata"].get("annotations") or {})
        if annotated or claim["spec"].get("storageClassName") is not None:
            return
        defaults = [found for found in self._reader.list(_CLASSES) if _is_default(found)]
        if defaults:
            # the newest wins; the first by name among equally old ones
            newest = max(found["metadata"]["creationTimestamp"] for found in defaults)
            names = [f["metadata"]["name"] for f in defaults if f["metadata"]["creationTimestamp"] == newest]
            claim["spec"]["storageClassName"] = min(names)


def _is_default(storage_class: JsonObject) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS)


class StorageObjectInUseProtection(AdmissionPlugin):
    """Adds finalizers, so that used volumes and claims are not removed."""

    name = "StorageObjectInUseProtection"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in _FINALIZERS and subresource == "" and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        finalizers = attributes.obj["metadata"].setdefault("finalizers", [])
        finalizer = _FINALIZERS[attributes.resource.bucket]
        # Set at creation, not by a controller later: a claim deleted in between would vanish under a Pod that uses it.
        if finalizer not in finalizers:
            finalizers.append(finalizer)


class PersistentVolumeClaimResize(AdmissionPlugin):
    """Allows only bound claims to grow, and only if their class allows expansion."""

    name = "PersistentVolumeClaimResize"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _CLAIMS and subresource == "" and operation == "UPDATE"

    def validate(self, attributes: Attributes) -> None:
        new, old = attributes.obj, attributes.old
        assert new is not None
        assert old is not None
        if quantity(_size(new)) <= quantity(_size(old)):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refuse(attributes, "Only bound persistent volume claims can be expanded")
        name = new["spec"].get("storageClassName")
        found = self._reader.get(_CLASSES, name) if name and name == old["spec"].get("storageClassName") else None
        if not (found or {}).get("allowVolumeExpansion"):
            raise refuse(
                attributes,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize",
            )


def _size(claim: JsonObject) -> str:
    return ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")
