"""Mirrors a hand-written Endpoints object into EndpointSlices, like Kubernetes' mirroring controller.

Each subset, in its canonical form, becomes one slice for each family of its addresses. At most a thousand addresses of
a subset are mirrored, ready ones first, and ten thousand of an object: subsets that share ports can expand to far more
than their text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from tarmac.api.partial import Partial, PartialMetadata
from tarmac.api.schema import JsonObject
from tarmac.api.shared import IPFamily
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.names import address_family, plain_address
from tarmac.decide.endpoints.groups import EndpointGroup
from tarmac.decide.endpoints.ports import ResolvedPort
from tarmac.decide.endpoints.subsets import Address, Subset, SubsetAddresses, repacked

OF_A_SUBSET = 1000
OF_AN_OBJECT = 10 * OF_A_SUBSET
LABEL_SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"


class _Address(Partial):
    ip: str = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: JsonObject | None = None


class _Port(Partial):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    app_protocol: str | None = None


class _Subset(Partial):
    addresses: list[_Address] | None = None
    not_ready_addresses: list[_Address] | None = None
    ports: list[_Port] | None = None


class EndpointsFacts(Partial):
    """An Endpoints object."""

    metadata: PartialMetadata
    subsets: list[_Subset] | None = None

    @property
    def mirrored(self) -> bool:
        """True unless the skip label is set or the object is a leader election record."""
        labels, annotations = self.metadata.labels or {}, self.metadata.annotations or {}
        return labels.get(LABEL_SKIP) != "true" and LEADER not in annotations


class Mirrors(NamedTuple):
    """The endpoints of each slice, and the number of skipped addresses."""

    slices: dict[EndpointGroup, list[JsonObject]]
    skipped: int


def mirrors(endpoints: EndpointsFacts) -> CooperativeWork[Mirrors]:
    """Compute the slices of an Endpoints object cooperatively."""
    offers, documents = yield from _read(endpoints)
    found: dict[EndpointGroup, list[JsonObject]] = {}
    count = 0
    for subset in (yield from repacked(offers, OF_AN_OBJECT)):
        for address, ready in islice(_in_order(subset), OF_A_SUBSET):
            group = EndpointGroup(_family(address[0]), "", subset.ports)
            found.setdefault(group, []).append({**documents[address], "conditions": {"ready": ready}})
            count += 1
        yield
    return Mirrors(found, max(0, sum(map(_size, endpoints.subsets or ())) - count))


def _read(endpoints: EndpointsFacts) -> CooperativeWork[tuple[list[SubsetAddresses], dict[Address, JsonObject]]]:
    offers: list[SubsetAddresses] = []
    documents: dict[Address, JsonObject] = {}
    left = OF_AN_OBJECT
    for subset in endpoints.subsets or ():
        readiness: dict[Address, bool] = {}
        for each, ready in islice(_listed(subset), left):
            document = _document(each)
            if document is not None:
                address = document["addresses"][0], (each.target_ref or {}).get("uid") or ""
                documents.setdefault(address, document)
                readiness[address] = ready and readiness.get(address, True)
            yield
        left = max(0, left - _size(subset))
        ports = [ResolvedPort(each.name, each.port, each.protocol, each.app_protocol) for each in subset.ports or ()]
        if readiness:
            offers.append(SubsetAddresses(ports, readiness))
        yield
    return offers, documents


def _document(address: _Address) -> JsonObject | None:
    """Return an endpoint; None for an invalid address, which older servers may have accepted."""
    try:
        # Nearly all addresses are IPv4 in canonical form, which is cheap to check.
        plain = address.ip if address_family(address.ip) == 4 else str(plain_address(address.ip))
    except ValueError:
        return None
    fields: Mapping[str, object] = {
        "hostname": address.hostname,
        "nodeName": address.node_name,
        "targetRef": address.target_ref,
    }
    return {"addresses": [plain], **{name: value for name, value in fields.items() if value}}


def _in_order(subset: Subset) -> Iterator[tuple[Address, bool]]:
    yield from ((address, True) for address in subset.ready)
    yield from ((address, False) for address in subset.not_ready)


def _family(address: str) -> IPFamily:
    return "IPv6" if ":" in address else "IPv4"


def _listed(subset: _Subset) -> Iterator[tuple[_Address, bool]]:
    yield from ((each, True) for each in subset.addresses or ())
    yield from ((each, False) for each in subset.not_ready_addresses or ())


def _size(subset: _Subset) -> int:
    return len(subset.addresses or ()) + len(subset.not_ready_addresses or ())
