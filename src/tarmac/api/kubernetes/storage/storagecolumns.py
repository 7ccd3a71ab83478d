"""The columns of `kubectl get` for the kinds that volume drivers use."""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.checks import mapping, objects
from tarmac.api.kubernetes.cells import AGE, NAME, NONE, UNSET, cell, field
from tarmac.api.resource import Column
from tarmac.api.schema import JsonObject

_STORAGE: Final = "storage.k8s.io"


def _yes(name: str, key: str) -> Column:
    return field(name, f".spec.{key}", default=False, type="boolean")


def _audiences(driver: JsonObject) -> str:
    requests: Any = mapping(driver, "spec").get("tokenRequests")
    return UNSET if requests is None else ",".join(each.get("audience", "") for each in requests)


def _modes(driver: JsonObject) -> str:
    return ",".join(mapping(driver, "spec").get("volumeLifecycleModes") or ()) or NONE


COLUMNS: Final[dict[tuple[str, str], tuple[Column, ...]]] = {
    (_STORAGE, "CSIDriver"): (
        NAME,
        _yes("AttachRequired", "attachRequired"),
        _yes("PodInfoOnMount", "podInfoOnMount"),
        _yes("StorageCapacity", "storageCapacity"),
        cell("TokenRequests", _audiences, ".spec.tokenRequests"),
        _yes("RequiresRepublish", "requiresRepublish"),
        cell("Modes", _modes, ".spec.volumeLifecycleModes"),
        AGE,
    ),
    (_STORAGE, "CSINode"): (
        NAME,
        cell(
            "Drivers",
            lambda obj: len(objects(obj, "spec", "drivers")),
            "Drivers indicates the number of CSI drivers registered on the node",
            type="integer",
        ),
        AGE,
    ),
    (_STORAGE, "VolumeAttachment"): (
        NAME,
        Column(
            "Attacher",
            lambda obj: mapping(obj, "spec").get("attacher", ""),
            format="name",
            description=".spec.attacher",
        ),
        field("PV", ".spec.source.persistentVolumeName"),
        field("Node", ".spec.nodeName"),
        field("Attached", ".status.attached", default=False, type="boolean"),
        AGE,
    ),
    (_STORAGE, "VolumeAttributesClass"): (NAME, field("DriverName", ".driverName"), AGE),
}
