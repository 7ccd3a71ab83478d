"""Updates the view from the API: Services, EndpointSlices, PodEndpoints of instances and ExternalServices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from tarmac.agent.dns.view import (
    DnsView,
    EndpointRecord,
    ExternalRecord,
    InstanceRecord,
    Key,
    NetworkAddress,
    PortRecord,
    ServiceRecord,
    SliceRecord,
)
from tarmac.api.declare import decoder
from tarmac.api.egress.externalservice import ExternalService, ExternalServiceStatus
from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.api.networking.podendpoint import PodEndpoint
from tarmac.client.feed import Feed, Kept
from tarmac.client.informer import Informers
from tarmac.client.targets.target import Target
from tarmac.client.targets.typed import EXTERNAL_SERVICES
from tarmac.client.targets.untyped import ENDPOINT_SLICES, POD_ENDPOINTS, SERVICES
from tarmac.client.watch import Change
from tarmac.decide.egress.compiling import dial_port

_SERVICE: Final = "kubernetes.io/service-name"

R = TypeVar("R")


class _Path(NamedTuple):
    """The position of a record in the view."""

    key: Key
    name: str


class DnsInformers:
    """Keeps a view up to date; the informers must run."""

    def __init__(self, informers: Informers, view: DnsView) -> None:
        self._feeds: list[Feed] = []
        self._follow(informers, SERVICES, _service, lambda path, found: view.put_service(path.key, found))
        self._follow(informers, ENDPOINT_SLICES, _slice, lambda path, found: view.put_slice(path.key, path.name, found))
        self._follow(informers, POD_ENDPOINTS, _member, lambda path, found: view.put_member(path.key, path.name, found))
        self._follow(informers, EXTERNAL_SERVICES, _external, lambda path, found: view.put_external(path.key, found))

    async def synced(self) -> None:
        """Wait until all informers have synced."""
        for feed in self._feeds:
            await feed.synced()

    def _follow(
        self,
        informers: Informers,
        target: Target[Any],
        read: Callable[[Change], tuple[_Path, R] | None],
        put: Callable[[_Path, R | None], None],
    ) -> None:
        """Put the result of `read` for each object into the view, and remove it with the object."""

        def changed(_: str, old: tuple[_Path, R] | None, new: tuple[_Path, R] | None) -> None:
            # The old place first: an object whose label changed would otherwise be found in both.
            if old is not None and (new is None or new[0] != old[0]):
                put(old[0], None)
            if new is not None:
                put(*new)

        feed = informers.feed(target)
        feed.add(Kept(read, changed))
        self._feeds.append(feed)


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def _service(change: Change) -> tuple[_Path, ServiceRecord]:
    metadata, spec = change.metadata, _decode(change.raw).get("spec") or {}
    path = _Path((metadata.namespace, metadata.name), "")
    if spec.get("type") == "ExternalName":
        return path, ServiceRecord(external=spec.get("externalName") or "")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
    own = tuple(each for each in addresses if each and each != "None")
    return path, ServiceRecord(own, tuple(_port(each) for each in spec.get("ports") or ()))


def _port(port: dict[str, Any]) -> PortRecord:
    return PortRecord(port.get("name") or "", (port.get("protocol") or "TCP").lower(), port.get("port") or 0)


def _slice(change: Change) -> tuple[_Path, SliceRecord] | None:
    metadata, found = change.metadata, _decode(change.raw)
    service = (metadata.labels or {}).get(_SERVICE)
    if not service or found.get("addressType") == "FQDN":
        return None
    network = (metadata.annotations or {}).get(ANNOTATION_NETWORK, "")
    endpoints = [
        EndpointRecord(each.get("hostname") or "", NetworkAddress(network, address), _is_ready(each))
        for each in found.get("endpoints") or ()
        for address in each["addresses"]
    ]
    ports = tuple(_port(each) for each in found.get("ports") or ())
    return _Path((metadata.namespace, service), metadata.name), SliceRecord(network, ports, tuple(endpoints))


def _is_ready(endpoint: dict[str, Any]) -> bool:
    # A missing condition means ready, as the API defines it.
    return (endpoint.get("conditions") or {}).get("ready") is not False


_read_endpoint = decoder(PodEndpoint)


def _member(change: Change) -> tuple[_Path, InstanceRecord] | None:
    """Read a pod that is an instance of a Workload."""
    found, metadata = _read_endpoint(change.raw), change.metadata
    if not found.workload or not found.interfaces:
        return None
    places = [NetworkAddress(nic.network, each.partition("/")[0]) for nic in found.interfaces for each in nic.addresses]
    return _Path((metadata.namespace, found.workload), metadata.name), InstanceRecord(tuple(places), found.ready)


_read_external = decoder(ExternalService)


def _external(change: Change) -> tuple[_Path, ExternalRecord]:
    """Read the addresses and the ports that pods dial, which may differ from the ports of the external server."""
    found, metadata = _read_external(change.raw), change.metadata
    status = found.status or ExternalServiceStatus()
    ports = tuple(PortRecord(each.name, each.protocol.lower(), dial_port(each)) for each in found.spec.ports)
    record = ExternalRecord(
        tuple(status.addresses), ports, frozenset(status.networks), found.metadata.creation_timestamp or ""
    )
    return _Path((metadata.namespace, metadata.name), ""), record
