"""What a Workload refers to, and which permission its author needs for it.

Attaching to a network takes `use` on the network. Naming a ConfigMap or Secret takes `get`, since whoever runs a
container can read what it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.schema import JsonObject

_SPEC = "spec.template.spec"


class ReferencedObject(NamedTuple):
    """Another object, and what one must be allowed to do with it. `path` is where a refusal is reported."""

    path: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    @property
    def refusal(self) -> str:
        """What to tell somebody who may not."""
        return f"permission to {self.verb} the {self.resource[:-1]} was denied"


def references(workload: JsonObject) -> Iterator[ReferencedObject]:
    """Everything a Workload refers to."""
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
    """(resource, name) of each ConfigMap and Secret, however it is used."""
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
