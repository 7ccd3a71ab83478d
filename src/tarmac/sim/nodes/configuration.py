"""Configuration of simulated nodes: their capacity, reservations and QoS classes.

    capacity: {cpu: 16, memory: 64Gi}        # of the machine, over the default shape
    kubelet: {systemReserved: {cpu: "2"}, cpuManagerPolicy: static}
    classes: {blockio: {slow: {capacity: 4}, fast: {}}}
    podClasses: {network: {gold: {}}}        # types that apply to whole pods
    immutableClasses: [network]              # types whose class a pod cannot change while it runs
    devices: {datumcloud.com/nvidia-h200: 2}
    unhealthyDevices: {datumcloud.com/nvidia-h200: 1}
    gpuXid: 48                               # the error that made them so; 79 by default

`kubelet` takes the fields of an agent's configuration that determine sizes, and the agent's own code reads them; no
eviction threshold applies unless one is stated. Invalid values are rejected with a message that names the field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml

from tarmac.agent.config.configreader import API_VERSION, KIND, BadConfig, StatedConfig, decode, stated
from tarmac.agent.config.cpumanager import check_cpus
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.devices.nvidia.xids import is_critical
from tarmac.agent.sizing.reservations import stated_reservations
from tarmac.api.kubernetes.core.nodeclasses import OfferedClasses, OfferedType
from tarmac.base import names
from tarmac.decide.allocatable.ledger import node_ledger, objections, sized
from tarmac.decide.allocatable.nodestatus import sizes_in_status
from tarmac.decide.allocatable.reservations import STORAGE, Reservations
from tarmac.decide.amounts import CPU, MEMORY, PODS, Amounts, amounts_of
from tarmac.decide.cpus.pools import exclusive_capacity, reserved_pool
from tarmac.decide.cpus.topology import Topology
from tarmac.sim.nodes.model import FALLEN_OFF, NodeModel
from tarmac.sim.nodes.settings import STORAGE_OF_A_NODE, NodeShape

KUBELET_FIELDS: Final = (
    "systemReserved", "kubeReserved", "reservedSystemCPUs", "evictionHard", "cpuOverSubscriptionCapacity",
    "cpuManagerPolicy", "cpuManagerPolicyOptions", "maxPods", "podsPerCore",
)  # fmt: skip
"""Fields allowed in `kubelet`."""

_AMOUNTS: Final = (CPU, MEMORY, STORAGE)
_HUGE_PAGES: Final = "hugepages-"


class BadNodeConfig(ValueError):
    """An invalid node configuration. The message names the field and the accepted values."""


class ClassLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An offered class. Without a capacity it is unlimited."""

    capacity: Annotated[int, msgspec.Meta(ge=1)] | None = None


class SimNodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The content of the file, and of `nodeConfig` in a scenario."""

    capacity: dict[str, str | int | float] = {}
    kubelet: dict[str, Any] = {}
    classes: dict[str, dict[str, ClassLimit]] = {}
    devices: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    unhealthy_devices: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    gpu_xid: Annotated[int, msgspec.Meta(ge=1, le=9999)] = FALLEN_OFF
    gpu_driver: Literal["known", "unknown"] = "known"
    pod_classes: dict[str, dict[str, ClassLimit]] = {}
    immutable_classes: list[str] = []


def read_config(path: Path) -> SimNodeConfig:
    """Read and validate a file. Raises BadNodeConfig, OSError."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text()) or {}, SimNodeConfig)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadNodeConfig(f"not YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise BadNodeConfig(str(error)) from error


def model_of(config: SimNodeConfig, shape: NodeShape | None = None) -> NodeModel:
    """Return the node model for a machine with this configuration. Raises BadNodeConfig."""
    written, offered = _kubelet(config), _offered(config)
    capacity = _capacity(config, written.kubelet, shape or NodeShape())
    topology = Topology.flat(range(capacity[CPU] // 1000))
    try:
        reservations = stated_reservations(written, topology.cpus)
        check_cpus(written, reservations)
    except BadConfig as error:
        raise BadNodeConfig(f"kubelet: {error}") from error
    static = written.kubelet.cpu_manager_policy == "static"
    return NodeModel(
        sizes=_without_unhealthy(_sizes(capacity, reservations, static), config.unhealthy_devices),
        offered=offered,
        topology=topology,
        given_away=topology.cpus - reserved_pool(topology, reservations) if static else None,
        sandboxes_gpus=config.gpu_driver == "known",
        unhealthy=config.unhealthy_devices,
        xid=_xid(config.gpu_xid),
    )


def _xid(number: int) -> int:
    if not is_critical(number):
        raise BadNodeConfig(f"gpuXid: {number} leaves a GPU healthy; write a critical one, such as {FALLEN_OFF} or 48")
    return number


def _sizes(capacity: Amounts, reservations: Reservations, static: bool) -> dict[str, Any]:
    own = exclusive_capacity(capacity[CPU] // 1000, reservations) if static else None
    size = sized(capacity, reservations, exclusive=own)
    if findings := objections(size):
        raise BadNodeConfig(f"invalid Node Allocatable configuration. {' '.join(findings)}")
    return sizes_in_status(node_ledger(size))


def _without_unhealthy(sizes: dict[str, Any], unhealthy: Mapping[str, int]) -> dict[str, Any]:
    """Return the sizes with devices that are in the capacity and not allocatable, as an agent reports them."""
    allocatable = dict(sizes["allocatable"])
    for name, count in unhealthy.items():
        present = int(allocatable.get(name, 0)) if "/" in name else 0
        if count > present:
            raise BadNodeConfig(f"unhealthyDevices.{name}: {count} of {present}; write at most as many as in devices")
        allocatable[name] = str(present - count)
    return {**sizes, "allocatable": allocatable}


def _kubelet(config: SimNodeConfig) -> StatedConfig:
    if unknown := sorted(config.kubelet.keys() - {*KUBELET_FIELDS}):
        raise BadNodeConfig(f"kubelet.{unknown[0]}: does not decide about sizes; there are {', '.join(KUBELET_FIELDS)}")
    try:
        kubelet = decode({"apiVersion": API_VERSION, "kind": KIND, "evictionHard": {}, **config.kubelet})
    except BadConfig as error:
        raise BadNodeConfig(f"kubelet.{error}") from error
    return stated(Flags(node_name="simulated", kubeconfig=Path(), node_labels={}, feature_gates={}), kubelet)


def _capacity(config: SimNodeConfig, kubelet: KubeletConfiguration, shape: NodeShape) -> Amounts:
    for name in config.capacity:
        if name not in _AMOUNTS and not name.startswith(_HUGE_PAGES):
            instead = {PODS: "; write kubelet.maxPods"}.get(name, "; write devices" if "/" in name else "")
            raise BadNodeConfig(f"capacity.{name}: there are {', '.join(_AMOUNTS)} and {_HUGE_PAGES}SIZE{instead}")
    written: dict[str, str | int | float] = {CPU: shape.cpu, MEMORY: shape.memory, STORAGE: STORAGE_OF_A_NODE}
    try:
        machine = amounts_of({**written, **config.capacity})
    except ValueError as error:
        raise BadNodeConfig(f"capacity: {error}") from error
    cpus, rest = divmod(machine.get(CPU, 0), 1000)
    if cpus < 1 or rest or any(amount < 0 for amount in machine.values()):
        raise BadNodeConfig("capacity: amounts are not negative, and cpu is a whole number, at least 1")
    pods = min(kubelet.pods_per_core * cpus, kubelet.max_pods) if kubelet.pods_per_core else kubelet.max_pods
    devices = {**dict(shape.devices), **config.devices}
    return machine | {PODS: pods} | {_device(name): count for name, count in devices.items() if count}


def _device(name: str) -> str:
    if "/" not in name or names.label_key(name):
        raise BadNodeConfig(f"devices.{name}: not the name of an extended resource, such as example.com/gpu")
    return name


def _offered(config: SimNodeConfig) -> OfferedClasses:
    container = _types("classes", config.classes, config.immutable_classes)
    pod = _types("podClasses", config.pod_classes, config.immutable_classes)
    if both := sorted(container.keys() & pod.keys()):
        raise BadNodeConfig(f"podClasses.{both[0]}: the type is in classes too; name it in one of them")
    if unknown := sorted({*config.immutable_classes} - container.keys() - pod.keys()):
        raise BadNodeConfig(f"immutableClasses: {unknown[0]} is neither in classes nor in podClasses")
    return OfferedClasses(pod, container)


def _types(
    field: str, classes: Mapping[str, Mapping[str, ClassLimit]], immutable: Collection[str]
) -> dict[str, OfferedType]:
    for kind, known in classes.items():
        for name, complaints in ((kind, names.label_key(kind)), *((each, _class_name(each)) for each in known)):
            if complaints:
                raise BadNodeConfig(f"{field}.{name}: {complaints[0]}")
    return {
        kind: OfferedType(kind in immutable, {name: limit.capacity for name, limit in known.items()})
        for kind, known in classes.items()
    }


def _class_name(name: str) -> list[str]:
    return names.label_value(name) if name else ["must not be empty"]
