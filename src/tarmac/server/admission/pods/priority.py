"""Priority: sets a Pod's priority from its class, never from its author.

Pods of higher priority preempt lower ones of any owner. So the two built-in classes, which outrank all Pods, require
the right `use` on them. Administrators create the remaining classes for their intended users. A Workload's author is
checked when its template names the class, because a controller creates its Pods.
"""

from __future__ import annotations

from tarmac.api.checks import mapping
from tarmac.api.kubernetes.priorityclasses import BUCKET as CLASSES
from tarmac.api.kubernetes.priorityclasses import NO_CLASS, SYSTEM, default_class
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET, is_of_a_node, pod_of
from tarmac.server.admission.pods.podtemplates import POD_TEMPLATES, template_spec
from tarmac.server.admission.refusal import refuse
from tarmac.server.admission.rights import may_use
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.users import User

# The paths at which our own kinds name a class.
_TEMPLATES = {
    "compute.datumapis.com/workloads": ("spec", "template", "spec"),
    "compute.datumapis.com/workloaddeployments": ("spec", "template", "spec"),
    "compute.datumapis.com/instances": ("spec",),
}


class Priority(AdmissionPlugin):
    """Resolves `priorityClassName`, and allows only one default class."""

    name = "Priority"

    def __init__(self, reader: Reader, authorizer: Authorizer) -> None:
        self._reader = reader
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        looked_at = resource.bucket in (BUCKET, CLASSES, *_TEMPLATES, *POD_TEMPLATES)
        return looked_at and subresource == "" and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.bucket != BUCKET:
            return
        spec = pod_of(attributes)["spec"]
        if attributes.operation == "UPDATE":
            assert attributes.old is not None
            for field in ("priority", "preemptionPolicy"):
                # A client that sends its manifest again does not know these fields; without them the update would
                # change the priority.
                if spec.get(field) is None and attributes.old["spec"].get(field) is not None:
                    spec[field] = attributes.old["spec"][field]
            return
        self._resolve(attributes, spec)

    def _resolve(self, attributes: Attributes, spec: JsonObject) -> None:
        name = spec.get("priorityClassName")
        found = self._class(attributes, name) if name else self._default_class() or NO_CLASS
        if not name and "metadata" in found:
            spec["priorityClassName"] = found["metadata"]["name"]
        _settle(attributes, spec, "priority", "integer value of priority", found.get("value", 0))
        if (policy := found.get("preemptionPolicy")) is not None:
            _settle(attributes, spec, "preemptionPolicy", "string value of PreemptionPolicy", policy)

    def _check_template(self, attributes: Attributes) -> None:
        """Check a built-in class. Other classes may be created after the template, as in Kubernetes."""
        bucket = attributes.resource.bucket
        name, before = (
            template_spec(bucket, each).get("priorityClassName") for each in (attributes.obj, attributes.old)
        )
        if name in SYSTEM and name != before:
            self._class(attributes, name)

    def _class(self, attributes: Attributes, name: str) -> JsonObject:
        """Return the class of this name. Raises Forbidden if it is missing or the user may not use it."""
        found = self._reader.get(CLASSES, name) or SYSTEM.get(name)
        if found is None:
            raise refuse(attributes, f"no PriorityClass with name {name} was found")
        if name in SYSTEM and not self._may_use(attributes.user, name):
            right = f'the right "use" on priorityclasses.scheduling.k8s.io "{name}", in the whole cluster'
            raise refuse(attributes, f"{name} ends Pods of others to have their place: it takes {right}")
        return found

    def _may_use(self, user: User, name: str) -> bool:
        # A node may: its Pods are mirrors of pods that already run.
        return is_of_a_node(user) or may_use(self._authorizer, user, CLASSES, name)

    def _default_class(self) -> JsonObject | None:
        return default_class(self._reader.list(CLASSES))

    def validate(self, attributes: Attributes) -> None:
        obj, where = attributes.obj, _TEMPLATES.get(attributes.resource.bucket)
        if where is not None:
            name, before = (mapping(each or {}, *where).get("priorityClassName") for each in (obj, attributes.old))
            # only a changed class: revoking a right must not block updates of running workloads
            if name and name != before:
                self._class(attributes, name)
        if attributes.resource.bucket in POD_TEMPLATES:
            self._check_template(attributes)
        if attributes.resource.bucket != CLASSES or obj is None or not obj.get("globalDefault"):
            return
        current = self._default_class()
        if current is not None and (attributes.operation == "CREATE" or current["metadata"]["name"] != attributes.name):
            name = current["metadata"]["name"]
            raise refuse(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")


def _settle(attributes: Attributes, spec: JsonObject, field: str, what: str, value: int | str) -> None:
    """Set a field to the value of the class. A Pod may state only the same value."""
    given = spec.get(field)
    if given is not None and given != value:
        raise refuse(
            attributes,
            f"the {what} ({given}) must not be provided in pod spec; priority admission controller computed {value} "
            "from the given PriorityClass name",
        )
    spec[field] = value
