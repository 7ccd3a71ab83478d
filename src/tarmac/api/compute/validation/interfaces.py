"""Network interfaces of an instance."""

from __future__ import annotations

from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.networking.validation.rules import check_ingress
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

FAMILIES = ("IPv4", "IPv6")
_RECLAIM_POLICIES = ("Delete", "Retain")
_MAX_NAME = 15  # the limit of Linux


def check_interfaces(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the network interfaces of a template's spec."""
    interfaces = objects(spec, "networkInterfaces")
    if not interfaces:
        errors.required(f"{path}.networkInterfaces")
    names: set[str] = set()
    for index, interface in enumerate(interfaces):
        where = f"{path}.networkInterfaces[{index}]"
        _network(interface, where, errors)
        _name(interface.get("name", ""), names, f"{where}.name", errors)
        check_families(interface.get("ipFamilies") or [], f"{where}.ipFamilies", errors)
        _addresses(interface, f"{where}.addresses", errors)
        checks.one_of(interface.get("reclaimPolicy", "Delete"), _RECLAIM_POLICIES, f"{where}.reclaimPolicy", errors)
        policy = mapping(interface, "networkPolicy")
        check_ingress(objects(policy, "ingress"), f"{where}.networkPolicy.ingress", errors)


def _network(interface: JsonObject, path: str, errors: FieldErrors) -> None:
    network = mapping(interface, "network")
    if not network.get("name"):
        errors.required(f"{path}.network.name")
    else:
        checks.dns_label(network["name"], f"{path}.network.name", errors)
    if network.get("namespace"):
        checks.dns_label(network["namespace"], f"{path}.network.namespace", errors)


def _name(name: str, seen: set[str], path: str, errors: FieldErrors) -> None:
    checks.dns_label(name, path, errors)
    if len(name) > _MAX_NAME:
        errors.too_long(path, name, _MAX_NAME)
    if name in seen:
        errors.duplicate(path, name)
    seen.add(name)


def check_families(families: list[str], path: str, errors: FieldErrors) -> None:
    """Check address families; each may occur once."""
    for index, family in enumerate(families):
        checks.one_of(family, FAMILIES, f"{path}[{index}]", errors)
        if family in families[:index]:
            errors.duplicate(f"{path}[{index}]", family)


def _addresses(interface: JsonObject, path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, address in enumerate(objects(interface, "addresses")):
        checks.unique_name(address.get("class", ""), seen, f"{path}[{index}].class", errors)
