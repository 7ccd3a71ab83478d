"""The names of the cluster, indexed by name and by address.

It contains addresses and ports of Services, endpoints per network from EndpointSlices, addresses of instances (their
pods) on each network, and the addresses that pods dial for ExternalServices. The cost of a lookup does not depend on
the number of unrelated objects.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from tarmac.agent.dns.domainnames import Name

EXTERNAL: Final = "external-services"
"""The label that contains ExternalServices."""

Key = tuple[str, str]
"""Namespace, and name of a Service, workload or ExternalService."""


class NetworkAddress(NamedTuple):
    """An address on a network; an empty network means outside of all networks."""

    network: str
    address: str


class PortRecord(NamedTuple):
    """A port with its name, which may be empty."""

    name: str
    protocol: str  # in lower case
    number: int


class ServiceRecord(NamedTuple):
    """A Service. Headless ones have no addresses, ExternalName ones only a target name."""

    addresses: tuple[str, ...] = ()
    ports: tuple[PortRecord, ...] = ()
    external: str = ""


class EndpointRecord(NamedTuple):
    """An endpoint of a Service."""

    hostname: str
    place: NetworkAddress
    ready: bool


class SliceRecord(NamedTuple):
    """A part of a Service's endpoints, with common ports and a common network."""

    network: str
    ports: tuple[PortRecord, ...]
    endpoints: tuple[EndpointRecord, ...]


class InstanceRecord(NamedTuple):
    """An instance of a workload."""

    places: tuple[NetworkAddress, ...]
    ready: bool


class ExternalRecord(NamedTuple):
    """An ExternalService: the addresses that pods dial, the networks of its pods, and its creation time."""

    addresses: tuple[str, ...]
    ports: tuple[PortRecord, ...]
    networks: frozenset[str]
    created: str


class DnsView:
    """The names of a cluster."""

    def __init__(self) -> None:
        self.services: dict[Key, ServiceRecord] = {}
        self.slices: dict[Key, dict[str, SliceRecord]] = {}
        self.workloads: dict[Key, dict[str, InstanceRecord]] = {}
        self.externals: dict[Key, ExternalRecord] = {}
        self.reverse: dict[NetworkAddress, dict[Name, None]] = {}
        self._labels: dict[Key, dict[str, dict[str, list[EndpointRecord]]]] = {}  # by Service, slice and endpoint name
        self._spaces: dict[str, Counter[str]] = {"svc": Counter(), "inst": Counter(), EXTERNAL: Counter()}
        # By kind of name, namespace and network: the records that clients on the network may know.
        self._known_on: Counter[tuple[str, str, str]] = Counter()
        # By name and network of ExternalServices, the oldest first.
        self._ages: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def has(self, namespace: str, sort: str, networks: Collection[str]) -> bool:
        """Return True if a namespace has names of Services (`svc`), instances (`inst`) or ExternalServices.

        Names count that clients on these networks may know: all of the networks' own namespaces, and in other
        namespaces those with a record on one of the networks.
        """
        if any(each.partition("/")[0] == namespace for each in networks):
            return self._spaces[sort][namespace] > 0
        return any(self._known_on[sort, namespace, each] for each in ("", *networks))

    def external_named(self, name: str, networks: Collection[str]) -> Key | None:
        """Return the ExternalService for a name without namespace, to clients on these networks.

        It is that of a network's own namespace; else the oldest one with source pods on one of the networks.
        """
        own = {(each.partition("/")[0], name) for each in networks} & self.externals.keys()
        if own:
            return min(own, key=lambda key: (self.externals[key].created, key))
        ages = [ages[0] for each in networks if (ages := self._ages.get((name, each)))]
        return (min(ages)[1], name) if ages else None

    def endpoints(self, key: Key, label: str) -> Iterator[tuple[str, EndpointRecord]]:
        """Yield the endpoints of a Service with this label, each with the network of its slice."""
        slices = self.slices.get(key, {})
        for name, labels in self._labels.get(key, {}).items():
            for endpoint in labels.get(label, ()):
                yield slices[name].network, endpoint

    def put_service(self, key: Key, service: ServiceRecord | None) -> None:
        """Replace or remove a Service."""
        old = self.services.pop(key, None)
        self._unname(_service_names(key, old))
        self._count("svc", key, (service is not None) - (old is not None))
        if service is not None:
            self.services[key] = service
            self._name(_service_names(key, service))

    def put_slice(self, key: Key, name: str, slice_: SliceRecord | None) -> None:
        """Replace or remove a slice."""
        known, labels = self.slices.setdefault(key, {}), self._labels.setdefault(key, {})
        old = known.pop(name, None)
        self._unname(_slice_names(key, old))
        labels.pop(name, None)
        self._know("svc", key, _network_of(old), _network_of(slice_))
        if slice_ is not None:
            known[name], labels[name] = slice_, _by_label(slice_)
            self._name(_slice_names(key, slice_))
        if not known:
            del self.slices[key], self._labels[key]

    def put_member(self, key: Key, name: str, member: InstanceRecord | None) -> None:
        """Replace or remove an instance."""
        was = key in self.workloads
        known = self.workloads.setdefault(key, {})
        old = known.pop(name, None)
        self._unname(_member_names(key, name, old))
        self._know("inst", key, _networks_of(old), _networks_of(member))
        if member is not None:
            known[name] = member
            self._name(_member_names(key, name, member))
        if not known:
            del self.workloads[key]
        self._count("inst", key, (key in self.workloads) - was)

    def put_external(self, key: Key, external: ExternalRecord | None) -> None:
        """Replace or remove an ExternalService."""
        namespace, name = key
        old = self.externals.pop(key, None)
        self._unname(_external_names(key, old))
        self._count(EXTERNAL, key, (external is not None) - (old is not None))
        before, now = old.networks if old else frozenset(), external.networks if external else frozenset()
        self._know(EXTERNAL, key, before, now)
        for network in before:
            self._forget_age((name, network), (old.created if old else "", namespace))
        if external is not None:
            self.externals[key] = external
            for network in now:
                insort(self._ages.setdefault((name, network), []), (external.created, namespace))
            self._name(_external_names(key, external))

    def _forget_age(self, of: tuple[str, str], age: tuple[str, str]) -> None:
        ages = self._ages[of]
        del ages[bisect_left(ages, age)]
        if not ages:
            del self._ages[of]

    def _know(self, sort: str, key: Key, before: Iterable[str], now: Iterable[str]) -> None:
        for network in now:
            self._known_on[sort, key[0], network] += 1
        for network in before:
            place = (sort, key[0], network)
            self._known_on[place] -= 1
            if not self._known_on[place]:
                del self._known_on[place]

    def _name(self, entries: Iterable[tuple[NetworkAddress, Name]]) -> None:
        for place, name in entries:
            self.reverse.setdefault(place, {})[name] = None

    def _unname(self, entries: Iterable[tuple[NetworkAddress, Name]]) -> None:
        for place, name in entries:
            known = self.reverse.get(place, {})
            known.pop(name, None)
            if not known:
                self.reverse.pop(place, None)

    def _count(self, sort: str, key: Key, change: int) -> None:
        spaces = self._spaces[sort]
        spaces[key[0]] += change
        if not spaces[key[0]]:
            del spaces[key[0]]


def label_of(endpoint: EndpointRecord) -> str:
    """Return an endpoint's label within its Service: its hostname, or one derived from its address."""
    return endpoint.hostname or endpoint.place.address.replace(".", "-").replace(":", "-")


def _network_of(slice_: SliceRecord | None) -> tuple[str, ...]:
    return (slice_.network,) if slice_ is not None and slice_.endpoints else ()


def _networks_of(member: InstanceRecord | None) -> set[str]:
    return {place.network for place in member.places} if member is not None else set()


def _by_label(slice_: SliceRecord) -> dict[str, list[EndpointRecord]]:
    found: dict[str, list[EndpointRecord]] = {}
    for endpoint in slice_.endpoints:
        found.setdefault(label_of(endpoint).lower(), []).append(endpoint)
    return found


def _service_names(key: Key, service: ServiceRecord | None) -> Iterator[tuple[NetworkAddress, Name]]:
    namespace, name = key
    for address in service.addresses if service else ():
        yield NetworkAddress("", address), (name, namespace, "svc")


def _slice_names(key: Key, slice_: SliceRecord | None) -> Iterator[tuple[NetworkAddress, Name]]:
    namespace, name = key
    for endpoint in slice_.endpoints if slice_ else ():
        if endpoint.hostname:
            yield endpoint.place, (endpoint.hostname, name, namespace, "svc")


def _member_names(key: Key, name: str, member: InstanceRecord | None) -> Iterator[tuple[NetworkAddress, Name]]:
    namespace, workload = key
    for place in member.places if member else ():
        yield place, (name, workload, namespace, "inst")


def _external_names(key: Key, external: ExternalRecord | None) -> Iterator[tuple[NetworkAddress, Name]]:
    namespace, name = key
    for address in external.addresses if external else ():
        yield NetworkAddress("", address), (name, namespace, EXTERNAL)
