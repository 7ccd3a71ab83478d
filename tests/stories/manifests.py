"""Workloads as the stories write them: sandboxes, or virtual machines that differ from them in the runtime block."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from tarmac.api.compute.machineimage import image_object_name
from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject

SMALL = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "1", "memory": "1Gi"}}


def workload(*placements: JsonObject, image: str = "registry.example.com/web:1", name: str = "web") -> JsonObject:
    """A Workload of one container."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "runtime": {"resources": SMALL, "sandbox": {"containers": [{"name": "web", "image": image}]}},
                    "networkInterfaces": [{"network": {"name": "default"}}],
                    "tolerations": [_lost_for(1, key) for key in ("unreachable", "not-ready")],
                },
            },
            "placements": list(placements),
        },
    }


def _lost_for(seconds: int, key: str) -> JsonObject:
    """Return a toleration: an instance waits this long for a lost node."""
    return {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


def placement(*cities: str, replicas: int, name: str = "everywhere", **more: Any) -> JsonObject:
    """So many instances in each of these cities."""
    policy = more.pop("policy", "OrderedReady")
    settings = {"minReplicas": replicas, "instanceManagementPolicy": policy, **more.pop("scaleSettings", {})}
    chosen = {"cityCodes": list(cities)} if cities else {}
    return {"name": name, **chosen, "scaleSettings": settings, **more}


@dataclass(frozen=True)
class Sort:
    """A kind of instances: images by version, an unavailable one, and its error message."""

    name: Literal["sandbox", "machine"]
    images: tuple[str, str, str]
    nowhere: str
    told: str
    change: str

    def written(self, manifest: JsonObject) -> JsonObject:
        """Return the manifest of a sandbox, with a runtime block of this kind in its place."""
        if self.name == "sandbox":
            return manifest
        made = deepcopy(manifest)
        spec = made["spec"]["template"]["spec"]
        spec["runtime"] = {"resources": SMALL, "virtualMachine": {"volumeAttachments": [{"name": "boot"}]}}
        populator = {"image": {"name": self.images[0]}}
        spec["volumes"] = [{"name": "boot", "disk": {"template": {"spec": {"populator": populator}}}}]
        return made

    def catalogue(self) -> list[JsonObject]:
        """Return the MachineImages to create."""
        if self.name == "sandbox":
            return []
        checksum = f"sha256:{0:064}"
        had = {"source": {"file": "web.img"}, "checksum": checksum}
        lost = {"source": {"url": "https://images.invalid/web.img"}, "checksum": checksum}
        return [_machine_image(name, had) for name in self.images] + [_machine_image(self.nowhere, lost)]


SANDBOX = Sort(
    "sandbox",
    ("registry.example.com/web:1", "registry.example.com/web:2", "registry.example.com/web:3"),
    "registry.invalid/web:2",
    'failed to pull and unpack image "registry.invalid/web:2": dial tcp: lookup registry.invalid: no such host.',
    "Correct the registry's name in the image, or have the node's resolver know it.",
)
MACHINE = Sort(
    "machine",
    ("stories/web-1", "stories/web-2", "stories/web-3"),
    "stories/web-nowhere",
    "images.invalid cannot be reached: [Errno -2] Name or service not known.",
    "Correct spec.source of MachineImage stories-web-nowhere, or have the node reach it.",
)


def _machine_image(name: str, source: JsonObject) -> JsonObject:
    spec = {"size": "10Gi", "format": "raw", **source}
    metadata = {"name": image_object_name(name)}
    return {"apiVersion": API_VERSION, "kind": "MachineImage", "metadata": metadata, "spec": spec}


def image_of(obj: JsonObject) -> str:
    """The image of an Instance's only container, or of its machine's boot disk."""
    sandbox = obj["spec"]["runtime"].get("sandbox")
    if sandbox is not None:
        return sandbox["containers"][0]["image"]
    return obj["spec"]["volumes"][0]["disk"]["template"]["spec"]["populator"]["image"]["name"]


def set_image(spec: JsonObject, image: str) -> None:
    """Change the image of a Workload's spec."""
    inner = spec["template"]["spec"]
    if "sandbox" in inner["runtime"]:
        inner["runtime"]["sandbox"]["containers"][0]["image"] = image
    else:
        inner["volumes"][0]["disk"]["template"]["spec"]["populator"]["image"]["name"] = image
