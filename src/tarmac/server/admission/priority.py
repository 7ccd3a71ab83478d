"""Priority: a Pod's number comes from its class, never from its author.

Pods of higher priority end others to have their place, whoever's they are. So the two classes that every cluster has,
which outrank everybody, take the right `use` on them. Other classes are made by administrators for those who should
have them. A Workload's author is asked when its template names the class: its Pods are made by a controller.
"""

from __future__ import annotations

from tarmac.api.kubernetes.checks import mapping
from tarmac.api.kubernetes.priorityclasses import BUCKET as CLASSES
from tarmac.api.kubernetes.priorityclasses import NO_CLASS, SYSTEM, default_class
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.pods import BUCKET, is_of_a_node, pod_of
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.users import User

# Where kinds of ours name a class.
_TEMPLATES = {
    "compute.datumapis.com/workloads": ("spec", "template", "spec"),
    "compute.datumapis.com/workloaddeployments": ("spec", "template", "spec"),
    "compute.datumapis.com/instances": ("spec",),
}


class Priority(Plugin):
    """Resolves `priorityClassName`, and allows one default class only."""

    name = "Priority"

    def __init__(self, reader: Reader, authorizer: Authorizer) -> None:
        self._reader = reader
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        looked_at = resource.bucket in (BUCKET, CLASSES, *_TEMPLATES)
        return looked_at and subresource == "" and operation in ("CREATE", "UPDATE")

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
        found = self._class(attributes, name) if name else self._default_class() or NO_CLASS
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

    def _class(self, attributes: Attributes, name: str) -> JsonObject:
        """The class of this name, for somebody who may have it."""
        found = self._reader.get(CLASSES, name) or SYSTEM.get(name)
        if found is None:
            raise refuse(attributes, f"no PriorityClass with name {name} was found")
        if name in SYSTEM and not self._may_use(attributes.user, name):
            right = f'the right "use" on priorityclasses.scheduling.k8s.io "{name}", in the whole cluster'
            raise refuse(attributes, f"{name} ends Pods of others to have their place: it takes {right}")
        return found

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

    def _default_class(self) -> JsonObject | None:
        return default_class(self._reader.list(CLASSES))

    def validate(self, attributes: Attributes) -> None:
        obj, where = attributes.obj, _TEMPLATES.get(attributes.resource.bucket)
        if where is not None:
            name, before = (mapping(each or {}, *where).get("priorityClassName") for each in (obj, attributes.old))
            if name and name != before:  # taking a right away does not lock owners out of what runs
                self._class(attributes, name)
        if attributes.resource.bucket != CLASSES or obj is None or not obj.get("globalDefault"):
            return
        current = self._default_class()
        if current is not None and (attributes.operation == "CREATE" or current["metadata"]["name"] != attributes.name):
            name = current["metadata"]["name"]
            raise refuse(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")
