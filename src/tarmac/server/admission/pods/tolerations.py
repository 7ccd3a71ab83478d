"""DefaultTolerationSeconds: a Pod tolerates five minutes of an unready or unreachable node by default."""

from __future__ import annotations

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET, pod_of

_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


class DefaultTolerationSeconds(AdmissionPlugin):
    """Adds the two tolerations, unless the Pod already has an equivalent one."""

    name = "DefaultTolerationSeconds"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == BUCKET and subresource == "" and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        spec = pod_of(attributes)["spec"]
        tolerations = spec.get("tolerations") or []
        missing = [key for key in _TAINTS if not any(_tolerates(toleration, key) for toleration in tolerations)]
        if missing:
            spec["tolerations"] = [*tolerations, *map(_toleration, missing)]


def _tolerates(toleration: JsonObject, key: str) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")


def _toleration(key: str) -> JsonObject:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
