"""EndpointSlice of discovery.k8s.io: a bounded part of a Service's addresses."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.api import checks
from tarmac.api.kubernetes.core.services.families import family_of
from tarmac.api.kubernetes.core.services.validation import address_warnings, validate_endpoint_address
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100
_MAX_PORTS = 20000
_MAX_HINTS = 8


class EndpointSliceStrategy(KubernetesStrategy):
    """EndpointSlice. It has no spec: its generation counts every change of its content and labels."""

    generation = True
    generation_fields = ("addressType", "endpoints", "ports", "metadata.labels")

    def default(self, obj: JsonObject) -> None:
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_for_create(self, obj: JsonObject) -> None:
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        kind = obj.get("addressType", "")
        checks.one_of(kind, _ADDRESS_TYPES, "addressType", errors)
        _validate_ports(obj.get("ports") or [], errors)
        endpoints = obj.get("endpoints") or []
        if len(endpoints) > _MAX_ENDPOINTS:
            errors.too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)
            return
        for index, endpoint in enumerate(endpoints):
            _validate_endpoint(endpoint, kind, f"endpoints[{index}]", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        checks.immutable(new.get("addressType"), old.get("addressType"), "addressType", errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if obj.get("addressType") == "FQDN":
            return ["spec.addressType: FQDN endpoints are deprecated"] if old is None else []
        return [
            warning
            for index, endpoint in enumerate(obj.get("endpoints") or ())
            for position, address in enumerate(endpoint.get("addresses") or ())
            for warning in address_warnings(address, f"endpoints[{index}].addresses[{position}]")
        ]


def _validate_ports(ports: list[JsonObject], errors: FieldErrors) -> None:
    if len(ports) > _MAX_PORTS:
        errors.too_many("ports", len(ports), _MAX_PORTS)
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name", "")
        if name:
            checks.dns_label(name, f"ports[{index}].name", errors)
        if name in seen:
            errors.duplicate(f"ports[{index}].name", name)
        seen.add(name)
        checks.one_of(port.get("protocol", ""), checks.PROTOCOLS, f"ports[{index}].protocol", errors)
        if (protocol := port.get("appProtocol")) is not None:
            checks.qualified_name(protocol, f"ports[{index}].appProtocol", errors)


def _validate_endpoint(endpoint: JsonObject, kind: str, path: str, errors: FieldErrors) -> None:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MAX_ADDRESSES:
        errors.too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES)
    for index, address in enumerate(addresses):
        _validate_address(address, kind, f"{path}.addresses", index, errors)
    if (node := endpoint.get("nodeName")) is not None:
        checks.dns_subdomain(node, f"{path}.nodeName", errors)
    if (host := endpoint.get("hostname")) is not None:
        checks.dns_label(host, f"{path}.hostname", errors)
    if hints := endpoint.get("hints"):
        _validate_hints(hints.get("forZones") or [], f"{path}.hints.forZones", names.label_value, errors)
        _validate_hints(hints.get("forNodes") or [], f"{path}.hints.forNodes", names.dns1123_subdomain, errors)


def _validate_address(address: str, kind: str, path: str, index: int, errors: FieldErrors) -> None:
    if kind == "FQDN":
        checks.dns_subdomain(address.removesuffix("."), f"{path}[{index}]", errors)
        return
    if kind == "IPv6" and (messages := _not_canonical(address)):
        checks.report(messages, address, f"{path}[{index}]", errors)
        return
    if not names.ip_address(address) and kind in ("IPv4", "IPv6") and family_of(address) != kind:
        errors.invalid(path, address, f"must be an {kind} address")
    validate_endpoint_address(address, f"{path}[{index}]", errors)


def _not_canonical(address: str) -> list[str]:
    """Return the errors of an address that must be in canonical form, as IPv6 addresses must be."""
    if messages := names.ip_address(address, strict=True):
        return messages
    usual = str(names.plain_address(address))
    return [] if usual == address else [f'must be in canonical form ("{usual}")']


def _validate_hints(hints: list[JsonObject], path: str, check: Callable[[str], list[str]], errors: FieldErrors) -> None:
    if len(hints) > _MAX_HINTS:
        errors.too_many(path, len(hints), _MAX_HINTS)
        return
    seen: set[str] = set()
    for index, hint in enumerate(hints):
        name = hint.get("name", "")
        if name in seen:
            errors.duplicate(f"{path}[{index}].name", name)
        seen.add(name)
        checks.report(check(name), name, f"{path}[{index}].name", errors)
