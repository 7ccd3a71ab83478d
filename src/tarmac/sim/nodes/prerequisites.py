"""Prerequisites of pods, checked as by an agent: the handler of their RuntimeClass, ConfigMaps and Secrets.

The agent's own functions build files and variables, which are discarded; only missing objects and the error messages
count. Only pods that refer to objects are read in full, at their start. Service account tokens and their companions are
assumed to exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

import msgspec

from tarmac.agent.environment.variables import ConfigMissing, PodEnvironment, environment
from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.pods.predicates import handler_refusal
from tarmac.agent.sources.apisources import ApiSources
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.informer import Informer
from tarmac.client.targets.untyped import RUNTIME_CLASSES
from tarmac.sim.nodes.model import HANDLERS
from tarmac.sim.nodes.pod import SimulatedPod
from tarmac.volumes.content.collect import Collector
from tarmac.volumes.content.files import ContentMissing, ContentUnsupported
from tarmac.volumes.interface import SourceUnavailable

_KNOWN: Final = frozenset(HANDLERS)
_TOKEN: Final = "serviceAccountToken"
_ABSENT: Final = msgspec.Raw()
_PROJECTED: Final = ("configMap", "secret", "projected")


class Unready(Exception):
    """A pod cannot start yet. `containers` maps containers to the error that their status shows."""

    def __init__(self, containers: Mapping[str, str]) -> None:
        super().__init__("; ".join(containers.values()))
        self.containers = containers


class Needs:
    """Looks up prerequisites. Call `run` to keep it up to date."""

    def __init__(self, client: Client) -> None:
        self._classes: Informer[JsonObject] = Informer(client, RUNTIME_CLASSES)
        # not run: it reads each object from the API
        self._sources = ApiSources(client)

    async def run(self) -> NoReturn:
        """Watch RuntimeClasses until cancelled."""
        await self._classes.run()

    def handler(self, pod: SimulatedPod) -> str:
        """Return the pod's runtime handler; empty for the default, or while its class is not known."""
        found = self._classes.get(pod.runtime_class) if pod.runtime_class else None
        return (found.get("handler") or "") if found is not None else ""

    def refusal(self, pod: SimulatedPod) -> Refusal | None:
        """Return the reason to reject the pod for its handler, or None. Raises Unready while its class is not known."""
        if not pod.runtime_class:
            return None
        found = self._classes.get(pod.runtime_class)
        if found is None:
            raise Unready({})  # the class may still be created: until then there is no sandbox
        return handler_refusal(pod.runtime_class, found.get("handler") or "", lambda: _KNOWN)

    async def check(self, raw: JsonObject, host: str) -> None:
        """Check that all objects exist that a pod refers to. Raises Unready."""
        pod = AgentPod(raw)
        await self._files(pod)
        here = PodEnvironment((), (host,), {}, ())
        missing: dict[str, str] = {}
        for container in (*pod.init_containers, *pod.containers):
            try:
                await environment(pod, container, self._sources, here)
            except ConfigMissing as error:
                missing[container["name"]] = str(error)
        if missing:
            raise Unready(missing)

    async def _files(self, pod: AgentPod) -> None:
        collector = Collector(pod.raw, self._sources, {})
        for kind, source in _mounted(pod):
            try:
                await collector.files(kind, source)
            except (ContentMissing, ContentUnsupported, SourceUnavailable) as error:
                raise Unready({}) from error  # no container is created before its files exist


def _mounted(pod: AgentPod) -> Iterator[tuple[str, JsonObject]]:
    """Yield the mounted volumes with content from objects."""
    used = {mount["name"] for each in pod.every_container() for mount in each.get("volumeMounts") or ()}
    for volume in pod.spec.get("volumes") or ():
        for kind in _PROJECTED:
            source = volume.get(kind)
            if source is not None and volume["name"] in used and not _is_token(source):
                yield kind, source


def _is_token(source: JsonObject) -> bool:
    return any(_TOKEN in each for each in source.get("sources") or ())


class _Container(msgspec.Struct, rename="camel"):
    env_from: list[msgspec.Raw] | None = None
    env: list[_Variable] | None = None


class _Variable(msgspec.Struct, rename="camel"):
    value_from: dict[str, msgspec.Raw] | None = None


class _Volume(msgspec.Struct, rename="camel"):
    config_map: msgspec.Raw = _ABSENT
    secret: msgspec.Raw = _ABSENT
    projected: msgspec.Raw = _ABSENT

    @property
    def refers(self) -> bool:
        """True if its files come from objects, not counting service account tokens."""
        files = bytes(self.config_map) + bytes(self.secret) + bytes(self.projected)
        return bool(files) and _TOKEN.encode() not in files


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec


_read = msgspec.json.Decoder(_Pod).decode


def refers(raw: bytes | msgspec.Raw) -> bool:
    """Return True if a pod refers to objects that may be missing."""
    spec = _read(raw).spec
    containers = (*spec.containers, *(spec.init_containers or ()))
    return any(each.refers for each in spec.volumes or ()) or any(
        each.env_from or any(one.value_from for one in each.env or ()) for each in containers
    )
