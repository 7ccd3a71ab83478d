"""Rules of the kinds for external services."""

from __future__ import annotations

import ipaddress

from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.networking.validation.ranges import Address, check_address, parse_range
from tarmac.api.ownkinds import IMMUTABLE, OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.base import names
from tarmac.base.duration import parse_duration
from tarmac.base.fielderrors import FieldErrors


class ExternalServiceStrategy(OwnStrategy):
    """One target, who reaches it under which address, and at which ports."""

    def __init__(self) -> None:
        super().__init__(ExternalService)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Target, sources, ports."""
        spec = obj["spec"]
        target = self._target(spec.get("targetIP", ""), errors)
        for index, source in enumerate(objects(spec, "sources")):
            _check_source(source, target, f"spec.sources[{index}]", errors)
        _check_ports(objects(spec, "ports"), errors)

    @staticmethod
    def _target(written: str, errors: FieldErrors) -> Address | None:
        if not written:
            return None
        target = check_address(written, "spec.targetIP", errors)
        if target is not None and not _is_outside(target):
            errors.invalid("spec.targetIP", written, "must be the address of a server outside the platform")
        return target


def _is_outside(address: Address) -> bool:
    inside = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    return not (inside or address == ipaddress.ip_address("255.255.255.255"))


def _check_source(source: JsonObject, target: Address | None, path: str, errors: FieldErrors) -> None:
    service = mapping(source, "service")
    for field in ("name", "namespace"):
        if service.get(field):
            checks.dns_label(service[field], f"{path}.service.{field}", errors)
    written, claim = source.get("sourceIP"), source.get("sourceIPClaim")
    if not written and claim is None:
        errors.required(f"{path}.sourceIP", "must specify one of: sourceIP, sourceIPClaim")
    elif written and claim is not None:
        errors.forbidden(f"{path}.sourceIPClaim", "may not be specified beside `sourceIP`")
    if written:
        address = check_address(written, f"{path}.sourceIP", errors)
        if address is not None and target is not None and address.version != target.version:
            errors.invalid(f"{path}.sourceIP", written, f"must be an IPv{target.version} address, as the target is")


def _check_ports(ports: list[JsonObject], errors: FieldErrors) -> None:
    port_names: set[str] = set()
    dialled: set[tuple[object, str]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            checks.dns_label(name, f"{path}.name", errors)
            if name in port_names:
                errors.duplicate(f"{path}.name", name)
            port_names.add(name)
        elif len(ports) > 1:
            errors.required(f"{path}.name", "must be set when there are several ports")
        dial = _dialled_port(port, path, errors)
        key = (dial, port.get("protocol", "TCP"))
        if dial is not None and key in dialled:
            errors.duplicate(f"{path}.targetPort", dial)
        dialled.add(key)


def _dialled_port(port: JsonObject, path: str, errors: FieldErrors) -> int | None:
    """The port that Pods dial. A name has no container to be looked up on, so only the port's own name is one."""
    written = port.get("targetPort", port.get("port"))
    if isinstance(written, str):
        if written and written == port.get("name"):
            return port.get("port")
        errors.invalid(f"{path}.targetPort", written, "must be a number, or the name of this port")
        return None
    if "targetPort" in port and written is not None:
        checks.port_number(written, f"{path}.targetPort", errors)
    return written


class SourceIPClassStrategy(OwnStrategy):
    """Addresses that managers offer."""

    def __init__(self) -> None:
        super().__init__(SourceIPClass)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Ranges, targets, times."""
        spec = obj["spec"]
        found: list[tuple[int, int, int]] = []
        for index, written in enumerate(objects(spec, "ranges")):
            path = f"spec.ranges[{index}]"
            bounds = _bounds(written, path, errors)
            if bounds is not None:
                if any(_overlap(bounds, other) for other in found):
                    errors.invalid(path, written, "overlaps another range of the class")
                found.append(bounds)
        for index, target in enumerate(spec.get("allowedTargets") or ()):
            parse_range(target, f"spec.allowedTargets[{index}]", errors)
        if mapping(spec, "subnet").get("gateway"):
            check_address(spec["subnet"]["gateway"], "spec.subnet.gateway", errors)
        for index, port in enumerate(mapping(spec, "inbound").get("ports") or ()):
            checks.port_number(port, f"spec.inbound.ports[{index}]", errors)
        checks.label_selector(
            mapping(spec, "allowedNamespaces").get("selector"), "spec.allowedNamespaces.selector", errors
        )
        _check_hold_down(spec.get("holdDown", ""), errors)


def _check_hold_down(written: str, errors: FieldErrors) -> None:
    try:
        negative = bool(written) and parse_duration(written) < 0
    except ValueError as error:
        errors.invalid("spec.holdDown", written, str(error))
    else:
        if negative:
            errors.invalid("spec.holdDown", written, "must not be negative")


def _bounds(written: JsonObject, path: str, errors: FieldErrors) -> tuple[int, int, int] | None:
    """(family, first, last) of a range; None when it was refused."""
    cidr, start, end = written.get("cidr"), written.get("start"), written.get("end")
    if cidr and (start or end):
        errors.forbidden(f"{path}.cidr", "may not be specified beside `start` and `end`")
    elif cidr:
        whole = parse_range(cidr, f"{path}.cidr", errors)
        return whole and (whole.version, int(whole.network_address), int(whole.broadcast_address))
    elif not (start and end):
        errors.required(path, "must specify `cidr`, or `start` and `end`")
    else:
        first = check_address(start, f"{path}.start", errors)
        last = check_address(end, f"{path}.end", errors, family=first.version if first else None)
        if first and last and int(last) < int(first):
            errors.invalid(f"{path}.end", end, "must not come before `start`")
        elif first and last:
            return first.version, int(first), int(last)
    return None


def _overlap(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2]


def object_name(address: Address) -> str:
    """The name of an address's SourceIP: as it is written, or for IPv6 its 32 hex digits."""
    return str(address) if address.version == 4 else f"{int(address):032x}"


class SourceIPStrategy(OwnStrategy):
    """One address; its object's name is the lock on it."""

    immutable = ("spec.address", "spec.className")

    def __init__(self) -> None:
        super().__init__(SourceIP)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """The address, and that the object is named after it."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        if not spec.get("address"):
            return
        address = check_address(spec["address"], "spec.address", errors)
        if address is not None and old is None and name != object_name(address):
            errors.invalid("metadata.name", name, f"must be {object_name(address)}, after the address")


class SourceIPClaimStrategy(OwnStrategy):
    """A namespace's hold on an address."""

    def __init__(self) -> None:
        super().__init__(SourceIPClaim)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Class, address, and that a bound claim keeps what it has."""
        spec = obj["spec"]
        if spec.get("className"):
            checks.report(names.dns1123_subdomain(spec["className"]), spec["className"], "spec.className", errors)
        if spec.get("address"):
            families = spec.get("families") or ["IPv4"]
            address = check_address(spec["address"], "spec.address", errors)
            if address is not None and f"IPv{address.version}" not in families:
                errors.invalid("spec.address", spec["address"], f"must be of a family in {', '.join(families)}")
        if mapping(old, "status").get("phase") == "Bound":
            before = mapping(old, "spec")
            for field in sorted((before.keys() | spec.keys()) - {"limits"}):
                if spec.get(field) != before.get(field):
                    errors.invalid(f"spec.{field}", spec.get(field), f"{IMMUTABLE} once the claim is bound")
