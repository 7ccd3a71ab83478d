"""Computes `status` of the Node from facts: the machine, the runtime's status, images and pressures.

Only kubelet's fields are written, and only differences: resources and conditions of other writers (administrators,
network controllers) are never touched. The patch is a strategic merge; addresses are replaced as a whole, because
several of one type would be merged into one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.agent.model.gpus import GpuSandboxState
from tarmac.agent.model.machinestate import MachineState
from tarmac.agent.model.tunnelstate import TunnelState
from tarmac.agent.node.hostfacts import HostFacts
from tarmac.agent.node.nodeconditions import RecordNodeEvent, conditions, same_conditions
from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL
from tarmac.api.kubernetes.core.nodedevices import NO_DEVICES, NodeDevices
from tarmac.api.kubernetes.version import GIT_VERSION
from tarmac.api.schema import JsonObject
from tarmac.decide.allocatable.accounts import NodeLedger
from tarmac.decide.allocatable.nodestatus import OPTIONAL, sizes_in_status
from tarmac.runtimes.interface import Image, RuntimeStatus

_NAMES_OF_AN_IMAGE = 5
_RESOURCES = ("capacity", "allocatable")
_CLASSES = (POD_LEVEL, CONTAINER_LEVEL)


@dataclass(frozen=True, slots=True)
class NodeStatusFacts:
    """The inputs of a status. `unready` is the reason why no pod can run, if any."""

    machine: HostFacts
    ledger: NodeLedger
    addresses: Sequence[JsonObject]
    port: int
    runtime: RuntimeStatus | None
    unready: str
    images: Sequence[Image]
    max_images: int
    pressures: frozenset[str]
    gone: frozenset[str] = frozenset()
    """Resources that this node had, and has no longer: kinds of devices."""
    devices: NodeDevices = NO_DEVICES
    offered: JsonObject = field(default_factory=dict[str, Any])
    """Fields of the status about classes."""
    tunnels: TunnelState | None = None
    """The tunnels to other nodes; None if unknown, or not managed by the agent."""
    machines: MachineState | None = None
    """Virtual machines; None until they have been probed."""
    gpus: GpuSandboxState | None = None
    """GPUs in sandboxes; None on a node without any."""


def node_status(facts: NodeStatusFacts, before: JsonObject, now: float, record_event: RecordNodeEvent) -> JsonObject:
    """Return the status to report, given the one that the server has."""
    if (booted := (before.get("nodeInfo") or {}).get("bootID")) and booted != facts.machine.boot_id:
        record_event("Rebooted", f"Node has been rebooted, boot id: {facts.machine.boot_id}")
    status: JsonObject = {
        **sizes_in_status(facts.ledger),
        "conditions": conditions(
            before.get("conditions") or (),
            facts.pressures,
            facts.unready,
            now,
            record_event,
            facts.tunnels,
            facts.machines,
            facts.gpus,
        ),
        "addresses": list(facts.addresses),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": facts.port}},
        "nodeInfo": _info(facts),
        "images": _images(facts.images, facts.max_images),
        **{name: facts.offered.get(name) or [] for name in _CLASSES if facts.offered.get(name) or before.get(name)},
    }
    if facts.runtime is not None:
        status["runtimeHandlers"] = _handlers(facts.runtime)
        if facts.runtime.strict_groups is not None:
            status["features"] = {"supplementalGroupsPolicy": facts.runtime.strict_groups}
    return status


def changes(status: JsonObject, before: JsonObject, gone: frozenset[str] = frozenset()) -> JsonObject:
    """Return the fields of a strategic merge patch from `before` to `status`; empty if they are equal.

    `gone`: resources to remove.
    """
    found: JsonObject = {}
    for name, value in status.items():
        if name in _RESOURCES:
            if difference := _resource_changes(value, before.get(name) or {}, gone):
                found[name] = difference
        elif name == "conditions":
            if not same_conditions(value, before.get(name) or ()):
                found[name] = value
        # A server may drop empty lists: a missing one must equal an empty one, or every report would write it.
        elif value != (before.get(name) or type(value)()):
            found[name] = value if name in _CLASSES and name not in before else _replaced(name, value)
    return found


def _replaced(field: str, value: Any) -> Any:
    """Return the patch of a list: replaced as a whole instead of merged; those about classes are removed when empty."""
    if field in _CLASSES and not value:
        return None
    # A merge by key would join addresses of one type, and keep those that are gone.
    return [{"$patch": "replace"}, *value] if field in ("addresses", *_CLASSES) else value


def _resource_changes(ours: JsonObject, before: JsonObject, gone: frozenset[str]) -> JsonObject:
    changed = {name: amount for name, amount in ours.items() if before.get(name) != amount}
    own = (name for name in before if name.startswith("hugepages-") or name in OPTIONAL or name in gone)
    return {**changed, **{name: None for name in own if name not in ours}}


def _info(facts: NodeStatusFacts) -> JsonObject:
    machine, runtime = facts.machine, facts.runtime
    info: JsonObject = {
        "machineID": machine.machine_id,
        "systemUUID": machine.system_uuid,
        "bootID": machine.boot_id,
        "kernelVersion": machine.kernel,
        "osImage": machine.os_image,
        "containerRuntimeVersion": f"{runtime.name}://{runtime.version}" if runtime else "://Unknown",
        "kubeletVersion": GIT_VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": machine.architecture,
    }
    if machine.swap:
        info["swap"] = {"capacity": machine.swap}
    return info


def _images(images: Sequence[Image], most: int) -> list[JsonObject]:
    # Ties in the order of ids: another order would be a change, and a write of the whole list.
    largest = sorted(images, key=lambda image: (-image.size, image.id))
    return [
        {"names": [*image.digests, *image.tags][:_NAMES_OF_AN_IMAGE], "sizeBytes": image.size}
        for image in (largest[:most] if most >= 0 else largest)
    ]


def _handlers(runtime: RuntimeStatus) -> list[JsonObject]:
    """Return the handlers, with the default first, which has an empty name."""
    return [
        {
            "name": handler.name,
            "features": {
                "recursiveReadOnlyMounts": handler.recursive_read_only_mounts,
                "userNamespaces": handler.user_namespaces,
            },
        }
        for handler in (runtime.default, *sorted(runtime.handlers, key=lambda handler: handler.name))
    ]
