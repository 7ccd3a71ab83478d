"""References of a Workload, and the permission that its author needs for each.

Attaching to a network needs `use` on the network. Naming a ConfigMap or Secret needs `get`, since the author of a
container can read its content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tarmac.api.checks import mapping, objects
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.schema import JsonObject

_SPEC = "spec.template.spec"


class ReferencedObject(NamedTuple):
    """A referenced object and the permission that it needs. A rejection is reported at `path`."""

    path: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    @property
    def refusal(self) -> str:
        """The error message for a missing permission."""
        return f"permission to {self.verb} the {self.resource[:-1]} was denied"


def references(workload: JsonObject) -> Iterator[ReferencedObject]:
    """Yield all references of a Workload."""
    namespace = mapping(workload, "metadata").get("namespace", "")
    spec = mapping(workload, "spec", "template", "spec")
    for index, interface in enumerate(objects(spec, "networkInterfaces")):
        network = mapping(interface, "network")
        path = f"{_SPEC}.networkInterfaces[{index}].network"
        where = network.get("namespace") or namespace
        yield ReferencedObject(path, "use", NETWORKING, "networks", where, network.get("name", ""))
    for resource, name in sorted({(resource, name) for resource, name in _data(spec) if name}):
        yield ReferencedObject(f"{_SPEC}.{resource}[{name}]", "get", "", resource, namespace, name)


def _data(spec: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield (resource, name) of each ConfigMap and Secret, for every kind of use."""
    for volume in objects(spec, "volumes"):
        yield "configmaps", mapping(volume, "configMap").get("name", "")
        yield "secrets", mapping(volume, "secret").get("secretName", "")
    sandbox = mapping(spec, "runtime", "sandbox")
    for secret in objects(sandbox, "imagePullSecrets"):
        yield "secrets", secret.get("name", "")
    for container in [*objects(sandbox, "containers"), *objects(sandbox, "initContainers")]:
        yield from _environment(container)
    yield "secrets", mapping(spec, "runtime", "virtualMachine", "cloudInit", "secretRef").get("name", "")


def _environment(container: JsonObject) -> Iterator[tuple[str, str]]:
    for source in objects(container, "envFrom"):
        yield "configmaps", mapping(source, "configMapRef").get("name", "")
        yield "secrets", mapping(source, "secretRef").get("name", "")
    for variable in objects(container, "env"):
        yield "configmaps", mapping(variable, "valueFrom", "configMapKeyRef").get("name", "")
        yield "secrets", mapping(variable, "valueFrom", "secretKeyRef").get("name", "")
