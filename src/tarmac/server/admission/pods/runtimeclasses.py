"""RuntimeClass: gives each Pod its own kernel by default, and the overhead and scheduling of its class.

A Pod without a class gets `gvisor`, or `gvisor-nvidia` if it requests GPUs that a sandbox can use by proxy. A Pod or
Workload that requests them and names the class `gvisor` is rejected at once, since no node could ever run it. Two kinds
of Pods stay without a class: mirrors of pods that a node already runs, and Pods that use the node's network, processes
or memory, which a sandbox cannot provide (`HostKernel` checks the right to do so).
"""

from __future__ import annotations

from tarmac.api.checks import mapping
from tarmac.api.compute.names import ANNOTATION_RUNTIME_CLASS
from tarmac.api.kubernetes.runtimeclasses import BUCKET as CLASSES
from tarmac.api.kubernetes.runtimeclasses import (
    NVIDIA_HANDLER,
    SANDBOX_CLASS,
    overhead_of,
    proxied_devices,
    proxied_in,
)
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.admission.pods.podplugin import is_of_a_node, pod_of, shared_namespaces
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

WORKLOADS = "compute.datumapis.com/workloads"
_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClassAdmission(AdmissionPlugin):
    """Sets a Pod's class, and merges the class's overhead, node selector and tolerations into the Pod."""

    name = "RuntimeClass"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in (PODS, WORKLOADS) and subresource == "" and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.bucket == WORKLOADS:
            return
        spec = pod_of(attributes)["spec"]
        # Pods are immutable in these fields, and a class may have changed since: only a new Pod gets its values.
        if attributes.old is not None:
            _keep_default(spec, attributes.old["spec"])
            return
        if not spec.get("runtimeClassName") and not is_of_a_node(attributes.user) and not shared_namespaces(spec):
            spec["runtimeClassName"] = NVIDIA_HANDLER if proxied_devices(spec) else SANDBOX_CLASS
        found = self._class(attributes, spec)
        if found is None:
            return
        overhead = overhead_of(found, _memory(spec))
        if overhead:
            if spec.get("overhead") and spec["overhead"] != overhead:
                raise refuse(attributes, _MISMATCH)
            spec["overhead"] = overhead
        if scheduling := found.get("scheduling"):
            _merge_scheduling(attributes, spec, scheduling)

    def validate(self, attributes: Attributes) -> None:
        if attributes.resource.bucket == WORKLOADS:
            asked = _closed_to_template(attributes.obj)
            if asked and asked != _closed_to_template(attributes.old):
                raise refuse(attributes, _closed(f"annotation {ANNOTATION_RUNTIME_CLASS}", SANDBOX_CLASS, asked))
            return
        if attributes.old is not None:
            return
        spec = pod_of(attributes)["spec"]
        found = self._class(attributes, spec)
        if found is not None and found.get("handler") == SANDBOX_CLASS and (asked := proxied_devices(spec)):
            raise refuse(attributes, _closed("spec.runtimeClassName", spec["runtimeClassName"], asked))
        overhead = overhead_of(found, _memory(spec))
        if not overhead and spec.get("overhead"):
            raise refuse(
                attributes, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        if overhead and spec.get("overhead") != overhead:
            raise refuse(attributes, _MISMATCH)

    def _class(self, attributes: Attributes, spec: JsonObject) -> JsonObject | None:
        name = spec.get("runtimeClassName")
        if name is None:
            return None
        found = self._reader.get(CLASSES, name)
        if found is None:
            raise refuse(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _closed_to_template(workload: JsonObject | None) -> list[str]:
    """Return the GPUs that a Workload requests although it names the class `gvisor`."""
    template = mapping(workload, "spec", "template")
    if mapping(template, "metadata", "annotations").get(ANNOTATION_RUNTIME_CLASS) != SANDBOX_CLASS:
        return []
    return proxied_in(mapping(template, "spec", "runtime", "resources", "requests"))


def _closed(field: str, name: str, asked: list[str]) -> str:
    why = f'{field}: the RuntimeClass "{name}" passes no devices on, and {", ".join(asked)} is requested'
    return f'{why}; leave it out to get "{NVIDIA_HANDLER}", or name a class that passes devices on'


def _memory(spec: JsonObject) -> Quantity | None:
    """Return the memory limit of a machine's only container, or None without a valid one."""
    limits = mapping(spec["containers"][0] if spec.get("containers") else None, "resources", "limits")
    try:
        return Quantity.parse(limits["memory"]) if "memory" in limits else None
    except ValueError:
        return None  # validation rejects it


def _keep_default(spec: JsonObject, before: JsonObject) -> None:
    """Keep the default class if an update names none: the original manifest must still apply without a change."""
    default = before.get("runtimeClassName")
    if not spec.get("runtimeClassName") and default in (SANDBOX_CLASS, NVIDIA_HANDLER):
        spec["runtimeClassName"] = default


def _merge_scheduling(attributes: Attributes, spec: JsonObject, scheduling: JsonObject) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            raise refuse(
                attributes,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}",
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    tolerations = spec.get("tolerations") or []
    added = [dict(toleration) for toleration in scheduling.get("tolerations") or () if toleration not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]
