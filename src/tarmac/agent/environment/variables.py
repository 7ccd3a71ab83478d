"""Environment variables of a container: literals, fields, resources, ConfigMaps, Secrets and service links.

Later definitions win: `envFrom` in order, then `env` in order, each value expanded from earlier ones and from the
service links, which come last and override nothing. A missing reference that is not optional raises `ConfigMissing`:
the container waits and does not fail.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.agent.environment.expansion import expand
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.volumes.content import downward
from tarmac.volumes.content.downward import container_resource
from tarmac.volumes.content.files import ContentUnsupported
from tarmac.volumes.interface import ObjectSources, SourceUnavailable

SEARCH_PATHS: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH": "",
}
"""Variables that are lists of folders, with the runtime's default."""


class ConfigMissing(Exception):
    """A container cannot be configured yet. `kubectl describe` shows the message."""


@dataclass(frozen=True, slots=True)
class PodEnvironment:
    """Node-specific inputs for a pod's environment."""

    pod_addresses: Sequence[str]
    host_addresses: Sequence[str]
    allocatable: Mapping[str, str]
    services: Iterable[JsonObject]


async def environment(
    pod: AgentPod, container: JsonObject, sources: ObjectSources, surroundings: PodEnvironment
) -> tuple[tuple[str, str], ...]:
    """Return the variables in the order of the spec. Raises ConfigMissing."""
    stated = _Stated(pod, container, sources, surroundings)
    # As of this start: a container keeps its service links for life, as with kubelet.
    links = service_links(surroundings.services, pod.namespace, pod.spec.get("enableServiceLinks", True))
    found: dict[str, str] = {}
    for each in container.get("envFrom") or ():
        found.update(await stated.all_of(each))
    for each in container.get("env") or ():
        if each.get("value"):
            value: str | None = expand(each["value"], found, links)
        else:
            value = await stated.value_of(each.get("valueFrom") or {})
        if value is not None:
            found[each["name"]] = value
    return (*found.items(), *((name, value) for name, value in links.items() if name not in found))


class _Stated:
    """Reads the references of `env` and `envFrom`, each object once."""

    def __init__(
        self, pod: AgentPod, container: JsonObject, sources: ObjectSources, surroundings: PodEnvironment
    ) -> None:
        self._pod = pod
        self._container = container
        self._sources = sources
        self._surroundings = surroundings
        self._read: dict[tuple[str, str], Mapping[str, str] | None] = {}

    async def all_of(self, source: JsonObject) -> dict[str, str]:
        """Return all keys of a ConfigMap or Secret, with the prefix."""
        kind, reference = ("configmap", source.get("configMapRef")) if "configMapRef" in source else ("", None)
        if reference is None:
            kind, reference = "secret", source.get("secretRef") or {}
        data = await self._data(kind, reference)
        prefix = source.get("prefix") or ""
        return {prefix + key: value for key, value in (data or {}).items()}

    async def value_of(self, source: JsonObject) -> str | None:
        """Return one value; None omits the variable."""
        if "configMapKeyRef" in source:
            return await self._key("configmap", source["configMapKeyRef"])
        if "secretKeyRef" in source:
            return await self._key("secret", source["secretKeyRef"])
        here = self._surroundings
        try:
            if "fieldRef" in source:
                path = source["fieldRef"]["fieldPath"]
                return pod_field(self._pod, path, here.pod_addresses, here.host_addresses)
            if "resourceFieldRef" in source:
                reference = {"containerName": self._container["name"], **source["resourceFieldRef"]}
                return container_resource(self._pod.raw, reference, here.allocatable)
        except ContentUnsupported as error:
            raise ConfigMissing(str(error)) from error
        return ""

    async def _key(self, kind: str, reference: JsonObject) -> str | None:
        data = await self._data(kind, reference)
        if data is None:
            return None
        value = data.get(reference["key"])
        if value is None and not reference.get("optional"):
            title = "ConfigMap" if kind == "configmap" else "Secret"
            where = f"{self._pod.namespace}/{reference['name']}"
            raise ConfigMissing(f"couldn't find key {reference['key']} in {title} {where}")
        return value

    async def _data(self, kind: str, reference: JsonObject) -> Mapping[str, str] | None:
        """Return the object's data as text; None if it is missing and optional."""
        name = reference["name"]
        # Once for each container: two variables of one object must not be of different versions.
        if (kind, name) not in self._read:
            self._read[kind, name] = await self._fetch(kind, name)
        data = self._read[kind, name]
        if data is None and not reference.get("optional"):
            raise ConfigMissing(f'{kind} "{name}" not found')
        return data

    async def _fetch(self, kind: str, name: str) -> Mapping[str, str] | None:
        read = self._sources.config_map if kind == "configmap" else self._sources.secret
        try:
            found = await read(self._pod.namespace, name)
        except SourceUnavailable as error:
            raise ConfigMissing(f'{kind} "{name}" cannot be read: {error}') from error
        if found is None or kind == "configmap":
            return None if found is None else found.get("data") or {}
        encoded: Mapping[str, str] = found.get("data") or {}
        return {key: base64.b64decode(value).decode(errors="surrogateescape") for key, value in encoded.items()}


def pod_field(pod: AgentPod, path: str, pod_addresses: Sequence[str], host_addresses: Sequence[str]) -> str:
    """Return the value of a `fieldRef`. Raises ContentUnsupported."""
    here = {
        "spec.nodeName": pod.spec.get("nodeName", ""),
        "spec.serviceAccountName": pod.spec.get("serviceAccountName", ""),
        "status.podIP": pod_addresses[0] if pod_addresses else "",
        "status.podIPs": ",".join(pod_addresses),
        "status.hostIP": host_addresses[0] if host_addresses else "",
        "status.hostIPs": ",".join(host_addresses),
    }
    return here[path] if path in here else downward.pod_field(pod.raw, path)


def service_links(services: Iterable[JsonObject], namespace: str, every: bool) -> dict[str, str]:
    """Return variables for `default/kubernetes` and, with `every`, for all Services of the namespace."""
    found: dict[str, str] = {}
    for service in services:
        metadata, spec = service["metadata"], service.get("spec") or {}
        address = spec.get("clusterIP")
        master = metadata["namespace"] == "default" and metadata["name"] == "kubernetes"
        if address in (None, "", "None") or not spec.get("ports"):
            continue
        if master or (every and metadata["namespace"] == namespace):
            found.update(_variables(metadata["name"], address, spec["ports"]))
    return found


def _variables(service: str, address: str, ports: list[JsonObject]) -> dict[str, str]:
    prefix = _name(service)
    found = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    host = f"[{address}]" if ":" in address else address
    for index, port in enumerate(ports):
        number, protocol = port["port"], port.get("protocol") or "TCP"
        url = f"{protocol.lower()}://{host}:{number}"
        each = f"{prefix}_PORT_{number}_{protocol.upper()}"
        if port.get("name"):
            found[f"{prefix}_SERVICE_PORT_{_name(port['name'])}"] = str(number)
        if index == 0:
            found[f"{prefix}_PORT"] = url
        found |= {each: url, f"{each}_PROTO": protocol.lower(), f"{each}_PORT": str(number), f"{each}_ADDR": address}
    return found


def _name(text: str) -> str:
    return text.replace("-", "_").upper()


def with_devices(given: Mapping[str, str], stated: Mapping[str, str], of_image: Iterable[str]) -> dict[str, str]:
    """Return the variables of a container: the pod's own override the plugins', which override the image's.

    Search paths are completed instead: a plugin's folders come after those of the pod or image.
    """
    image = dict(each.split("=", 1) for each in of_image if "=" in each)
    known = {**given, **stated}
    for name, default in SEARCH_PATHS.items():
        if name in given:
            known[name] = _joined(stated.get(name, image.get(name, default)), given[name])
    return known


def _joined(before: str, more: str) -> str:
    folders = before.split(":") if before else []
    return ":".join((*folders, *(each for each in more.split(":") if each not in folders)))
