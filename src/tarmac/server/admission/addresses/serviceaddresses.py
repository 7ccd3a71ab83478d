"""ServiceAddresses: allocates cluster addresses and node ports of Services at creation, without duplicates.

Allocations are known from the store's events, and from writes that the store has accepted and not made visible yet; a
write that fails later, or a dry run, holds nothing. If several servers share the store, Services are written under one
guard, so that two servers cannot allocate the same address. Addresses are released once the deletion is visible.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from tarmac.api.kubernetes.core.services import families
from tarmac.api.kubernetes.core.services.validation import validate_addresses
from tarmac.api.networking.names import SERVICE_RANGES
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import InternalError, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.randomness import Randomness
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.reader import Reader, decode
from tarmac.store.interface import Event

_BUCKET = "core/services"
RANGES: dict[str, ipaddress.IPv4Network | ipaddress.IPv6Network] = dict(
    zip((families.IPV4, families.IPV6), map(ipaddress.ip_network, SERVICE_RANGES), strict=True)
)
NODE_PORTS = range(30000, 32768)
# The first addresses of a range are reserved for explicit choices; random ones come after them.
_RESERVED = 256


class ServiceAddresses(AdmissionPlugin):
    """Allocates or checks `clusterIPs`, `nodePort` and `healthCheckNodePort`."""

    name = "ServiceAddresses"

    def __init__(self, reader: Reader, randomness: Randomness) -> None:
        self._reader = reader
        self._randomness = randomness
        self._taken: dict[str, str] = {}  # address or port -> its Service
        self._promised: dict[str, str] = {}  # the same for pending writes, recomputed for each admitted write
        self._loaded = False

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and subresource == "" and operation in ("CREATE", "UPDATE")

    def guard(self, resource: Resource, namespace: str) -> str | None:
        return "services" if self._reader.store.shared else None

    def admit(self, attributes: Attributes) -> None:
        self._load()
        # Computed for each write: the addresses of a pending write that failed are free again without any bookkeeping.
        self._promised = dict(self._under_way())
        service = attributes.obj
        assert service is not None
        spec, old = service["spec"], (attributes.old or {}).get("spec")
        if old is not None:
            families.patch_allocated(spec, old)
        families.normalise_addresses(spec, old)
        families.init_policy(spec, old)
        with FieldErrors() as errors:
            if families.needs_cluster_address(spec):
                validate_addresses(spec, errors)
            if not errors:
                families.init_families(spec, old, errors)
            if not errors:
                key = f"{attributes.namespace}/{attributes.name}"
                self._allocate_addresses(spec, old, key, errors)
                self._allocate_ports(spec, key, errors)
        if errors:
            raise invalid("", "Service", attributes.name, errors)

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            # Before the list, in the same turn of the loop: an address allocated in between would be handed out again.
            self._reader.store.subscribe(_BUCKET, self._changed)
            for service in self._reader.list(_BUCKET):
                self._take(service)

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            # The old holdings first: an update that keeps its address must find it in the table afterwards.
            if event.previous is not None:
                for holding in _holdings(decode(event.previous)):
                    self._taken.pop(holding, None)
            if event.type != "DELETED":
                self._take(decode(event.entry))

    def _take(self, service: JsonObject) -> None:
        metadata = service["metadata"]
        for holding in _holdings(service):
            self._taken[holding] = f"{metadata['namespace']}/{metadata['name']}"

    def _under_way(self) -> Iterator[tuple[str, str]]:
        for event in self._reader.store.pending():
            if event.bucket == _BUCKET and event.type != "DELETED":
                for holding in _holdings(decode(event.entry)):
                    yield holding, event.entry.name

    def _is_free(self, holding: str, key: str) -> bool:
        return self._taken.get(holding, key) == key == self._promised.get(holding, key)

    def _allocate_addresses(self, spec: JsonObject, old: JsonObject | None, key: str, errors: FieldErrors) -> None:
        if not families.needs_cluster_address(spec) or families.is_headless(spec):
            return
        given: list[str] = list(spec.get("clusterIPs") or ())
        fixed = (old.get("clusterIPs") or []) if old and old.get("type") != "ExternalName" else []
        for index, family in enumerate(spec.get("ipFamilies") or ()):
            if index < min(len(given), len(fixed)) and given[index] != fixed[index]:
                continue  # validation reports that it is immutable
            if index < len(given):
                self._check_address(given[index], family, key, given, errors)
            elif family in RANGES:
                given.append(self._free_address(family, key))
        spec["clusterIPs"] = given
        spec["clusterIP"] = given[0] if given else ""

    def _check_address(self, address: str, family: str, key: str, given: list[str], errors: FieldErrors) -> None:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return  # validation reports the error
        block = RANGES.get(family)
        if block is not None and parsed.version == block.version and parsed not in block:
            detail = f"failed to allocate IP {address}: the provided network does not match the current range"
            errors.invalid("spec.clusterIPs", given, detail)
        elif not self._is_free(str(parsed), key):
            detail = f"failed to allocate IP {address}: provided IP is already allocated"
            errors.invalid("spec.clusterIPs", given, detail)

    def _free_address(self, family: str, key: str) -> str:
        block = RANGES[family]
        count = block.num_addresses - _RESERVED - 1  # without the reserved addresses and the last one
        # Random: the address of a deleted Service must not go to the next one at once, while clients still have it
        # cached.
        start = int(self._randomness.uniform(0, count))
        for offset in range(count):
            address = str(block[_RESERVED + (start + offset) % count])
            if self._is_free(address, key):
                return address
        raise InternalError("failed to allocate a serviceIP: range is full")

    def _allocate_ports(self, spec: JsonObject, key: str, errors: FieldErrors) -> None:
        chosen: set[str] = set()
        if families.needs_node_ports(spec):
            for index, port in enumerate(spec.get("ports") or ()):
                self._allocate_port(port, "nodePort", f"spec.ports[{index}].nodePort", chosen, key, errors)
        if families.needs_health_check_port(spec):
            self._allocate_port(spec, "healthCheckNodePort", "spec.healthCheckNodePort", chosen, key, errors)

    def _allocate_port(
        self, owner: JsonObject, field: str, path: str, chosen: set[str], key: str, errors: FieldErrors
    ) -> None:
        number, protocol = owner.get(field, 0), owner.get("protocol", "TCP")
        if not number:
            number = owner[field] = self._free_port(protocol, chosen, key)
        elif number not in NODE_PORTS:
            valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            detail = f"provided port is not in the valid range. The range of valid ports is {valid}"
            errors.invalid(path, number, detail)
        elif not self._is_free(f"{protocol}:{number}", key):
            errors.invalid(path, number, "provided port is already allocated")
        chosen.add(f"{protocol}:{number}")

    def _free_port(self, protocol: str, chosen: set[str], key: str) -> int:
        start = int(self._randomness.uniform(0, len(NODE_PORTS)))
        for offset in range(len(NODE_PORTS)):
            number = NODE_PORTS[(start + offset) % len(NODE_PORTS)]
            holding = f"{protocol}:{number}"
            if holding not in chosen and self._is_free(holding, key):
                return number
        raise InternalError("failed to allocate a nodePort: range is full")


def _holdings(service: JsonObject) -> Iterator[str]:
    spec = service.get("spec") or {}
    if spec.get("type") != "ExternalName":
        yield from (address for address in spec.get("clusterIPs") or () if address != "None")
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield f"{port.get('protocol', 'TCP')}:{port['nodePort']}"
    if spec.get("healthCheckNodePort"):
        # kube-proxy serves the health check over TCP, on a port of the same range as node ports.
        yield f"TCP:{spec['healthCheckNodePort']}"
