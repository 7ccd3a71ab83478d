"""Resolves a question for a client from the view; returns None for names outside the cluster.

A client sees only addresses on its own networks: names on other networks do not exist for it. The address of a Service
belongs to the networks of its endpoints; without endpoints, to those of its namespace, as does the target of an
ExternalName Service. An ExternalService belongs to the networks of its source pods and of its namespace; a name without
namespace leads to the client's own. A namespace without any of these does not exist for the client.

A name that has records of other types, or names below it, exists without data (NOERROR); any other does not exist
(NXDOMAIN). The number of records in a response is limited, regardless of the name: it is computed on the event loop
that serves all clients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from ipaddress import ip_address
from itertools import chain, islice, takewhile
from typing import Final

from tarmac.agent.dns.dnsmessages import (
    AAAA,
    ANY,
    CNAME,
    NO_SUCH_NAME,
    PTR,
    SOA,
    SRV,
    A,
    DnsAnswer,
    Question,
    Record,
    address_record,
    name_record,
    service_record,
    start_record,
)
from tarmac.agent.dns.domainnames import MalformedPacket, Name, address_of, name_of
from tarmac.agent.dns.view import (
    EXTERNAL,
    DnsView,
    EndpointRecord,
    ExternalRecord,
    Key,
    NetworkAddress,
    PortRecord,
    ServiceRecord,
    SliceRecord,
    label_of,
)

TTL: Final = 5
MAX_RECORDS: Final = 1000
"""Per response. They fit into some 16 KiB, and clients have no use for more addresses."""

MAX_ENDPOINTS: Final = 10_000
"""Per Service, searched for ready ones."""

_ADDRESSES: Final = {A: 4, AAAA: 6}
_PROTOCOLS: Final = ("_tcp", "_udp", "_sctp")

Networks = Collection[str]
"""The networks of a client, as namespace/name."""

Offered = dict[PortRecord, list[SliceRecord]]
"""Ports of a Service, and the slices that serve them."""


class Resolver:
    """Resolves names of one zone, such as `cluster.local`."""

    def __init__(self, view: DnsView, zone: str = "cluster.local") -> None:
        self._view = view
        self._zone = name_of(zone)

    def answer(self, question: Question, networks: Networks) -> DnsAnswer | None:
        """Return the response; None if the name belongs to an upstream resolver."""
        name, zone = question.name, self._zone
        address = address_of(name)
        if address is not None:
            return self._reverse(question, address, networks)
        if name[len(name) - len(zone) :] != zone:
            return None
        found = self._records(question, name[: len(name) - len(zone)], networks)
        if found is None:
            return DnsAnswer(NO_SUCH_NAME, authority=(start_record(zone, TTL),))
        if not found.answers:
            return DnsAnswer(authority=(start_record(zone, TTL),))
        return found

    def _records(self, question: Question, labels: Name, networks: Networks) -> DnsAnswer | None:
        """Resolve a name of the zone: None if it does not exist, an empty response if it has no such data."""
        if not labels:
            return DnsAnswer(answers=(start_record(self._zone, TTL),)) if question.type in (SOA, ANY) else DnsAnswer()
        match labels:
            case ("svc",) | ("inst",) | ("external-services",) | ("external-services", "svc"):
                return DnsAnswer()
            case (*inner, "external-services"):
                return self._external(question, tuple(inner), networks)
            case (*inner, name, "external-services", "svc") if self._view.external_named(name, networks) is not None:
                return self._external(question, (*inner, name), networks)
            case (namespace, "svc"):
                return DnsAnswer() if self._view.has(namespace, "svc", networks) else None
            case (namespace, "inst"):
                return DnsAnswer() if self._view.has(namespace, "inst", networks) else None
            case (*inner, service, namespace, "svc"):
                return self._service(question, tuple(inner), (namespace, service), networks)
            case (workload, namespace, "inst"):
                return self._workload(question, (namespace, workload), networks)
            case (instance, workload, namespace, "inst"):
                return self._instance(question, instance, (namespace, workload), networks)
            case _:
                return None

    # Services

    def _service(self, question: Question, inner: Name, key: tuple[str, str], networks: Networks) -> DnsAnswer | None:
        service = self._view.services.get(key)
        if service is None:
            return None
        if service.external:
            own = _is_visible(key[0], [], networks)  # it has no endpoints: another namespace's target is not told
            return self._alias(question, service.external) if own and not inner else None
        slices = list(self._view.slices.get(key, {}).values())
        if not _is_visible(key[0], slices, networks):
            return None
        seen = [each for each in slices if each.network in ("", *networks)]
        match inner:
            case ():
                return self._whole(question, service, seen)
            case (port, protocol) if protocol in _PROTOCOLS and port.startswith("_"):
                return self._port(question, service, seen, port[1:], protocol[1:])
            case (label,) if label in _PROTOCOLS:
                return DnsAnswer()
            case (label,):
                named = self._view.endpoints(key, label)
                ready = [each.place.address for of, each in named if each.ready and of in ("", *networks)]
                return _addresses(question, ready) if ready else None
            case _:
                return None

    def _alias(self, question: Question, target: str) -> DnsAnswer:
        try:
            aim = name_of(target)
        except MalformedPacket:
            return DnsAnswer()
        alias = (name_record(CNAME, question.name, aim, TTL),)
        return DnsAnswer(answers=alias, follow=aim if question.type in (A, AAAA, ANY) else None)

    def _whole(self, question: Question, service: ServiceRecord, slices: list[SliceRecord]) -> DnsAnswer:
        if question.type == SRV:
            offered = _offered(service, slices)
            ports = [port for port in offered if port.name]
            return self._with_addresses(question, service, slices, self._targets(question, service, offered, ports))
        ready = (each.place.address for each in _endpoints(slices))
        return _addresses(question, service.addresses or ready)

    def _port(
        self, question: Question, service: ServiceRecord, slices: list[SliceRecord], name: str, protocol: str
    ) -> DnsAnswer | None:
        offered = _offered(service, slices)
        wanted = [port for port in offered if (port.name.lower(), port.protocol) == (name, protocol)]
        if not wanted:
            return None
        if question.type not in (SRV, ANY):
            return DnsAnswer()
        return self._with_addresses(question, service, slices, self._targets(question, service, offered, wanted))

    def _targets(
        self, question: Question, service: ServiceRecord, offered: Offered, ports: Iterable[PortRecord]
    ) -> Iterator[Record]:
        """Yield SRV records: of the Service's own address, or of each endpoint of a headless one."""
        base = self._base(question)
        for port in ports:
            if service.addresses:
                yield service_record(question.name, port.number, base, TTL)
            for endpoint in _endpoints(offered[port]):
                yield service_record(question.name, port.number, (label_of(endpoint).lower(), *base), TTL)

    def _with_addresses(
        self, question: Question, service: ServiceRecord, slices: list[SliceRecord], records: Iterable[Record]
    ) -> DnsAnswer:
        """Return service records with the addresses of their targets."""
        # Limited before duplicates are dropped: the work is bounded, not only the answer.
        base, records = self._base(question), tuple(dict.fromkeys(islice(records, MAX_RECORDS)))
        if service.addresses:
            extra = [address_record(base, address, TTL) for address in service.addresses]
        else:
            endpoints = islice(_endpoints(slices), MAX_RECORDS)
            extra = [address_record((label_of(each).lower(), *base), each.place.address, TTL) for each in endpoints]
        return DnsAnswer(answers=records, additional=tuple(extra) if records else ())

    def _base(self, question: Question) -> Name:
        """Return the Service name in a question."""
        return question.name[-(len(self._zone) + 3) :]

    # Instances

    def _workload(self, question: Question, key: tuple[str, str], networks: Networks) -> DnsAnswer | None:
        members = self._view.workloads.get(key, {}).values()
        seen = [member for member in members if any(place.network in networks for place in member.places)]
        if not seen:
            return None
        ready = (place for member in seen if member.ready for place in member.places)
        return _addresses(question, (place.address for place in ready if place.network in networks))

    def _instance(self, question: Question, name: str, key: tuple[str, str], networks: Networks) -> DnsAnswer | None:
        member = self._view.workloads.get(key, {}).get(name)
        found = _on(member.places, networks) if member is not None else []
        return _addresses(question, found) if found else None

    # ExternalServices

    def _external(self, question: Question, labels: Name, networks: Networks) -> DnsAnswer | None:
        """Resolve by name and namespace, or by name alone; port and protocol labels may precede either."""
        inner = tuple(takewhile(lambda label: label.startswith("_"), labels))
        match labels[len(inner) :]:
            case (name, namespace):
                key: Key | None = (namespace, name)
            case (name,):
                key = self._view.external_named(name, networks)
            case _:
                return None
        found = self._seen_external(key, networks) if key is not None else None
        if found is not None:
            return self._of_external(question, inner, found)
        # A namespace with names below it exists.
        return DnsAnswer() if len(labels) == 1 and self._view.has(labels[0], EXTERNAL, networks) else None

    def _of_external(self, question: Question, inner: Name, found: ExternalRecord) -> DnsAnswer | None:
        named = [port for port in found.ports if port.name]
        match inner:
            case () if question.type != SRV:
                return _addresses(question, found.addresses)
            case ():
                asked = named
            case (port, protocol) if protocol in _PROTOCOLS:
                asked = [each for each in named if (each.name.lower(), each.protocol) == (port[1:], protocol[1:])]
                if not asked:
                    return None
            case (label,) if label in _PROTOCOLS:
                return DnsAnswer()
            case _:
                return None
        if question.type not in (SRV, ANY) or not found.addresses:
            return DnsAnswer()
        base = question.name[len(inner) :]
        records = tuple(service_record(question.name, port.number, base, TTL) for port in asked)
        extra = tuple(address_record(base, each, TTL) for each in found.addresses)
        return DnsAnswer(answers=records, additional=extra if records else ())

    def _seen_external(self, key: Key, networks: Networks) -> ExternalRecord | None:
        """Return an ExternalService, if the client is on a network of its source pods or of its namespace."""
        found = self._view.externals.get(key)
        if found is None or not any(each in found.networks or each.partition("/")[0] == key[0] for each in networks):
            return None
        return found

    # Reverse lookups

    def _reverse(self, question: Question, address: str, networks: Networks) -> DnsAnswer | None:
        here = (NetworkAddress(network, address) for network in ("", *networks))
        found = ((place.network, name) for place in here for name in self._view.reverse.get(place, ()))
        # Limited before the check below: each name costs a look at all slices of its Service.
        asked = islice(found, MAX_RECORDS)
        names = [name for network, name in asked if self._may_know(network, name, networks)]
        if names:
            if question.type not in (PTR, ANY):
                return DnsAnswer(authority=(start_record(question.name, TTL),))
            return DnsAnswer(
                answers=tuple(name_record(PTR, question.name, (*name, *self._zone), TTL) for name in names)
            )
        # upstream resolvers know nothing about private addresses, and should not see these queries
        if ip_address(address).is_private:
            return DnsAnswer(NO_SUCH_NAME, authority=(start_record(question.name, TTL),))
        return None

    def _may_know(self, network: str, name: Name, networks: Networks) -> bool:
        if name[-1] == EXTERNAL:
            return self._seen_external((name[-2], name[-3]), networks) is not None
        if network or name[-1] != "svc":
            return network in networks
        *_, service, namespace, _ = name
        slices = list(self._view.slices.get((namespace, service), {}).values())
        return _is_visible(namespace, slices, networks)


def _is_visible(namespace: str, slices: list[SliceRecord], networks: Networks) -> bool:
    """Return True if a Service is on one of these networks, or on none at all."""
    if not any(each.endpoints for each in slices):
        return any(network.partition("/")[0] == namespace for network in networks)
    known = {"", *networks}
    return any(each.endpoints and each.network in known for each in slices)


def _offered(service: ServiceRecord, slices: Iterable[SliceRecord]) -> Offered:
    """Return ports with their slices. A Service with its own address lists its ports itself."""
    if service.addresses:
        return {port: [] for port in service.ports}
    found: Offered = {}
    for each in slices:
        for port in each.ports:
            found.setdefault(port, []).append(each)
    return found


def _endpoints(slices: Iterable[SliceRecord]) -> Iterator[EndpointRecord]:
    every = islice(chain.from_iterable(each.endpoints for each in slices), MAX_ENDPOINTS)
    return (endpoint for endpoint in every if endpoint.ready)


def _on(places: Iterable[NetworkAddress], networks: Networks) -> list[str]:
    return [place.address for place in places if place.network in networks]


def _addresses(question: Question, addresses: Iterable[str]) -> DnsAnswer:
    wanted = _ADDRESSES.get(question.type)
    if wanted is None and question.type != ANY:
        return DnsAnswer()
    asked = (each for each in addresses if wanted in (None, 6 if ":" in each else 4))
    found = dict.fromkeys(islice(asked, MAX_RECORDS))
    return DnsAnswer(answers=tuple(address_record(question.name, each, TTL) for each in found))
