"""Finds the ConfigMaps and Secrets that a pod refers to: in volumes, in variables, and for image pulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import CONFIG_MAPS, SECRETS

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


class PodObjectReference(NamedTuple):
    """A ConfigMap or Secret that a pod of this node refers to."""

    plural: str
    namespace: str
    name: str

    @property
    def target(self) -> Target[JsonObject]:
        """The resource of the object."""
        return CONFIG_MAPS if self.plural == CONFIG_MAPS.plural else SECRETS


def references(pod: JsonObject) -> set[PodObjectReference]:
    """Return all ConfigMaps and Secrets for the pod's files, variables and images."""
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    found = {*_volumes(spec), *_variables(spec)}
    found.update((SECRETS.plural, each.get("name", "")) for each in spec.get("imagePullSecrets") or ())
    return {PodObjectReference(plural, namespace, name) for plural, name in found if name}


def _volumes(spec: JsonObject) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        sources: list[dict[str, Any]] = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            if "configMap" in source:
                yield CONFIG_MAPS.plural, source["configMap"].get("name", "")
            if "secret" in source:
                yield SECRETS.plural, source["secret"].get("secretName") or source["secret"].get("name", "")


def _variables(spec: JsonObject) -> Iterator[tuple[str, str]]:
    for container in (each for sort in _CONTAINERS for each in spec.get(sort) or ()):
        for source in container.get("envFrom") or ():
            yield CONFIG_MAPS.plural, (source.get("configMapRef") or {}).get("name", "")
            yield SECRETS.plural, (source.get("secretRef") or {}).get("name", "")
        for variable in container.get("env") or ():
            value = variable.get("valueFrom") or {}
            yield CONFIG_MAPS.plural, (value.get("configMapKeyRef") or {}).get("name", "")
            yield SECRETS.plural, (value.get("secretKeyRef") or {}).get("name", "")
