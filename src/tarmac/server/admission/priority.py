"""Priority: a Pod's number comes from its class, never from its author.

Pods of higher priority end others to have their place, whoever's they are. So the two classes that every cluster has,
which outrank everybody, take the right `use` on them. Other classes are made by administrators for those who should
have them.
"""

from __future__ import annotations

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.pods import BUCKET, is_of_a_node, pod_of
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.users import User

_CLASSES = "scheduling.k8s.io/priorityclasses"
_NO_CLASS: JsonObject = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
# The two classes that are always there, whether or not anybody has stored them.
_SYSTEM: dict[str, JsonObject] = {
    "system-cluster-critical": {"value": 2_000_000_000, "preemptionPolicy": "PreemptLowerPriority"},
    "system-node-critical": {"value": 2_000_001_000, "preemptionPolicy": "PreemptLowerPriority"},
}


class Priority(Plugin):
    """Resolves `priorityClassName`, and allows one default class only."""

    name = "Priority"

    def __init__(self, reader: Reader, authorizer: Authorizer) -> None:
        self._reader = reader
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in (BUCKET, _CLASSES) and subresource == "" and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.bucket != BUCKET:
            return
        spec = pod_of(attributes)["spec"]
        if attributes.operation == "UPDATE":
            assert attributes.old is not None
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and attributes.old["spec"].get(field) is not None:
                    spec[field] = attributes.old["spec"][field]
            return
        self._resolve(attributes, spec)

    def _resolve(self, attributes: Attributes, spec: JsonObject) -> None:
        name = spec.get("priorityClassName")
        found = self._class(name) if name else self._default()
        if found is None:
            raise refuse(attributes, f"no PriorityClass with name {name} was found")
        if name in _SYSTEM and not self._may_use(attributes.user, name):
            right = f'the right "use" on priorityclasses.scheduling.k8s.io "{name}", in the whole cluster'
            raise refuse(attributes, f"{name} ends Pods of others to have their place: it takes {right}")
        if not name and "metadata" in found:
            spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = found.get("value", 0), found.get("preemptionPolicy")
        given = spec.get("priority")
        if given is not None and given != value:
            raise refuse(
                attributes,
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {value} from the given PriorityClass name",
            )
        spec["priority"] = value
        if policy is not None:
            self._set_policy(attributes, spec, policy)

    def _may_use(self, user: User, name: str) -> bool:
        info = RequestInfo("use", "", True, "scheduling.k8s.io", "v1", "priorityclasses", "", "", name)
        return is_of_a_node(user) or self._authorizer.refuses(user, info) is None  # a mirror shows what runs already

    def _set_policy(self, attributes: Attributes, spec: JsonObject, policy: str) -> None:
        given = spec.get("preemptionPolicy")
        if given is not None and given != policy:
            raise refuse(
                attributes,
                f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {policy} from the given PriorityClass name",
            )
        spec["preemptionPolicy"] = policy

    def _class(self, name: str) -> JsonObject | None:
        return self._reader.get(_CLASSES, name) or _SYSTEM.get(name)

    def _default(self) -> JsonObject:
        return self._default_class() or _NO_CLASS

    def _default_class(self) -> JsonObject | None:
        defaults = [found for found in self._reader.list(_CLASSES) if found.get("globalDefault")]
        return min(defaults, key=lambda found: found.get("value", 0), default=None)

    def validate(self, attributes: Attributes) -> None:
        obj = attributes.obj
        if attributes.resource.bucket != _CLASSES or obj is None or not obj.get("globalDefault"):
            return
        current = self._default_class()
        if current is not None and (attributes.operation == "CREATE" or current["metadata"]["name"] != attributes.name):
            name = current["metadata"]["name"]
            raise refuse(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")
