"""HostKernel: running on the host's kernel requires the right `use` on the RuntimeClass.

An attacker that breaks out of such a Pod controls the node and all Pods on it. So the right must be cluster-wide, never
per namespace, and it is needed for every class not known to have its own kernel. It is checked for the author of a Pod,
or of an object that Pods are created from: a Workload, an Instance, a Deployment. The controllers that pass the class
on have the right for all classes, so the first author must be checked. An update that does not change the class is not
checked: revoking the right must not lock owners out of running workloads.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.checks import mapping
from tarmac.api.compute.names import ANNOTATION_RUNTIME_CLASS
from tarmac.api.kubernetes.runtimeclasses import BUCKET as CLASSES
from tarmac.api.kubernetes.runtimeclasses import HOST_CLASS, OWN_KERNEL_HANDLERS, SANDBOX_CLASS
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.admission.pods.podplugin import is_of_a_node, shared_namespaces
from tarmac.server.admission.pods.podtemplates import POD_TEMPLATES, template_spec
from tarmac.server.admission.refusal import refuse
from tarmac.server.admission.rights import may_use
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.users import User

_METADATA_OF_INSTANCES = {
    "compute.datumapis.com/workloads": ("spec", "template", "metadata"),
    "compute.datumapis.com/workloaddeployments": ("spec", "template", "metadata"),
    "compute.datumapis.com/instances": ("metadata",),
}


class _Asked(NamedTuple):
    """A class and the field that requests it."""

    name: str
    field: str


class HostKernel(AdmissionPlugin):
    """Checks Pods at creation, and the kinds that Pods are created from on every write."""

    name = "HostKernel"

    def __init__(self, reader: Reader, authorizer: Authorizer) -> None:
        self._reader = reader
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if resource.bucket == PODS:
            return subresource == "" and operation == "CREATE"  # the class of a Pod is immutable
        templated = resource.bucket in _METADATA_OF_INSTANCES or resource.bucket in POD_TEMPLATES
        return templated and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        asked = _asked(attributes, attributes.obj)
        if asked is None or asked == _asked(attributes, attributes.old) or self._has_own_kernel(asked.name):
            return
        if not may_use(self._authorizer, attributes.user, CLASSES, asked.name):
            raise refuse(attributes, _refusal(asked, attributes.user))

    def _has_own_kernel(self, name: str) -> bool:
        found = self._reader.get(CLASSES, name)
        return found is not None and found.get("handler") in OWN_KERNEL_HANDLERS


def _asked(attributes: Attributes, obj: JsonObject | None) -> _Asked | None:
    if obj is None:
        return None
    bucket = attributes.resource.bucket
    if bucket == PODS:
        return _asked_by_pod(obj["spec"], attributes.user)
    if bucket in POD_TEMPLATES:
        return _asked_by_template(bucket, obj)
    name = mapping(obj, *_METADATA_OF_INSTANCES[bucket], "annotations").get(ANNOTATION_RUNTIME_CLASS)
    # without it, the Pod gets the default
    return _Asked(name, f"the annotation {ANNOTATION_RUNTIME_CLASS}") if name else None


def _asked_by_pod(spec: JsonObject, user: User) -> _Asked | None:
    if is_of_a_node(user):
        return None  # a mirror of a pod that already runs
    if name := spec.get("runtimeClassName"):
        return _Asked(name, "spec.runtimeClassName")
    return _Asked(HOST_CLASS, " and ".join(f"spec.{field}" for field in shared_namespaces(spec)))


def _asked_by_template(bucket: str, obj: JsonObject) -> _Asked | None:
    spec, path = template_spec(bucket, obj), ".".join((*POD_TEMPLATES[bucket], "spec"))
    if name := spec.get("runtimeClassName"):
        return _Asked(name, f"{path}.runtimeClassName")
    shared = shared_namespaces(spec)
    # without either, the Pods get the default
    return _Asked(HOST_CLASS, " and ".join(f"{path}.{field}" for field in shared)) if shared else None


def _refusal(asked: _Asked, user: User) -> str:
    return (
        f'{asked.field} asks for the RuntimeClass "{asked.name}", which is not known to have a kernel of its own: '
        f'user "{user.name}" needs the right "use" on the resource "runtimeclasses" in API group "node.k8s.io", named '
        f'"{asked.name}", at the cluster scope. Leave {asked.field} out to get "{SANDBOX_CLASS}", or ask an '
        "administrator for a ClusterRole with this right and a ClusterRoleBinding"
    )
