"""RuntimeClass: what a class costs and where it runs becomes part of every Pod that uses it."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.pods import PodCreation, pod_of
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_CLASSES = "node.k8s.io/runtimeclasses"
_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClasses(PodCreation):
    """Merges overhead, node selector and tolerations of the class into the Pod."""

    name = "RuntimeClass"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def admit(self, attributes: Attributes) -> None:
        spec = pod_of(attributes)["spec"]
        found = self._class(attributes, spec)
        if found is None:
            return
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead:
            if spec.get("overhead") and spec["overhead"] != overhead:
                raise refuse(attributes, _MISMATCH)
            spec["overhead"] = dict(overhead)
        if scheduling := found.get("scheduling"):
            _merge_scheduling(attributes, spec, scheduling)

    def validate(self, attributes: Attributes) -> None:
        spec = pod_of(attributes)["spec"]
        found = self._class(attributes, spec)
        overhead = ((found or {}).get("overhead") or {}).get("podFixed")
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
        found = self._reader.get(_CLASSES, name)
        if found is None:
            raise refuse(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return found


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
