"""Keeps the view in step with the API: Services, EndpointSlices and the pods of instances, as a few fields each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from tarmac.agent.names.view import Endpoint, Key, Member, Place, Port, Service, Slice, View
from tarmac.api.compute.names import API_VERSION, LABEL_WORKLOAD_NAME
from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, ANNOTATION_NETWORK
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.reflector import Reflector
from tarmac.client.targets import PODS, Target, dynamic
from tarmac.client.watch import Change

_SERVICES: Final = dynamic("v1", "services", "Service")
_SLICES: Final = dynamic("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
_SERVICE: Final = "kubernetes.io/service-name"

R = TypeVar("R")
_log = log("names")


class _Path(NamedTuple):
    """Where something is in the view."""

    key: Key
    name: str


Read = Callable[[Change], "tuple[_Path, R] | None"]
Put = Callable[[_Path, "R | None"], None]


class _Sink(Generic[R]):
    """Puts what `read` makes of each object into the view, and takes it out again."""

    def __init__(self, read: Read[R], put: Put[R]) -> None:
        self._read = read
        self._put = put
        self._paths: dict[str, tuple[str, _Path]] = {}  # by key: uid, and where it is

    def replaced(self, state: Iterable[Change]) -> None:
        """Take a whole new state."""
        gone = set(self._paths)
        for change in state:
            gone.discard(change.metadata.key)
            self._take(change)
        for key in gone:
            self._drop(key)

    def changed(self, change: Change) -> None:
        """Take one change. A late word about an object whose name another has taken is none."""
        key = change.metadata.key
        if change.type != "DELETED":
            self._take(change)
        elif self._paths.get(key, ("",))[0] == change.metadata.uid:
            self._drop(key)

    def _take(self, change: Change) -> None:
        key = change.metadata.key
        try:
            found = self._read(change)
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            _log.warning("unreadable object", key=key, error=repr(error))
            found = None
        if found is None or self._paths.get(key, ("", found[0]))[1] != found[0]:
            self._drop(key)
        if found is not None:
            self._paths[key] = change.metadata.uid, found[0]
            self._put(*found)

    def _drop(self, key: str) -> None:
        known = self._paths.pop(key, None)
        if known is not None:
            self._put(known[1], None)


class Following:
    """The watches behind a view."""

    def __init__(self, client: Client, view: View) -> None:
        sinks: tuple[tuple[Target[Any], _Sink[Any]], ...] = (
            (_SERVICES, _Sink(_service, lambda path, found: view.put_service(path.key, found))),
            (_SLICES, _Sink(_slice, lambda path, found: view.put_slice(path.key, path.name, found))),
            (PODS, _Sink(_member, lambda path, found: view.put_member(path.key, path.name, found))),
        )
        self._reflectors = [Reflector(client, target, sink) for target, sink in sinks]

    async def run(self) -> None:
        """Keep in step until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Wait until everything is known."""
        for reflector in self._reflectors:
            await reflector.synced.wait()


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def _service(change: Change) -> tuple[_Path, Service]:
    metadata, spec = change.metadata, _decode(change.raw).get("spec") or {}
    path = _Path((metadata.namespace, metadata.name), "")
    if spec.get("type") == "ExternalName":
        return path, Service(external=spec.get("externalName") or "")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
    own = tuple(each for each in addresses if each and each != "None")
    return path, Service(own, tuple(_port(each) for each in spec.get("ports") or ()))


def _port(port: dict[str, Any]) -> Port:
    return Port(port.get("name") or "", (port.get("protocol") or "TCP").lower(), port.get("port") or 0)


def _slice(change: Change) -> tuple[_Path, Slice] | None:
    metadata, found = change.metadata, _decode(change.raw)
    service = (metadata.labels or {}).get(_SERVICE)
    if not service or found.get("addressType") == "FQDN":
        return None
    network = (metadata.annotations or {}).get(ANNOTATION_NETWORK, "")
    endpoints = [
        Endpoint(each.get("hostname") or "", Place(network, address), _is_ready(each))
        for each in found.get("endpoints") or ()
        for address in each["addresses"]
    ]
    ports = tuple(_port(each) for each in found.get("ports") or ())
    return _Path((metadata.namespace, service), metadata.name), Slice(network, ports, tuple(endpoints))


def _is_ready(endpoint: dict[str, Any]) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_read_pod = msgspec.json.Decoder(_Pod).decode


def _member(change: Change) -> tuple[_Path, Member] | None:
    """A pod that an Instance owns."""
    metadata = change.metadata
    owner, workload = metadata.controller, (metadata.labels or {}).get(LABEL_WORKLOAD_NAME)
    text = (metadata.annotations or {}).get(ANNOTATION_INTERFACES)
    if not workload or not text or owner is None or (owner.kind, owner.api_version) != ("Instance", API_VERSION):
        return None
    places = tuple(
        Place(nic.network, each.partition("/")[0]) for nic in decode_interfaces(text) for each in nic.addresses
    )
    conditions = _read_pod(change.raw).status.conditions or ()
    ready = any(each.type == "Ready" and each.status == "True" for each in conditions)
    member = Member(places, ready and metadata.deletion_timestamp is None)
    return _Path((metadata.namespace, workload), metadata.name), member
