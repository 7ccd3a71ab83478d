"""NetworkPolicy of `networking.k8s.io`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.networking.validation.trafficrules import too_many
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_RULES: Final = (("ingress", "from"), ("egress", "to"))
_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


class NetworkPolicyStrategy(KubernetesStrategy):
    """NetworkPolicy."""

    generation = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.get("spec")
        if spec is None:
            return
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for _, rule, _ in _rules(spec):
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        _validate(obj, frozenset(), errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        known = {text for _, block in _blocks(old) for text in (block.get("cidr", ""), *(block.get("except") or ()))}
        _validate(new, frozenset(known), errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        found: list[str] = []
        for path, block in _blocks(obj):
            found += _range_warnings(block.get("cidr", ""), f"{path}.cidr")
            for index, text in enumerate(block.get("except") or ()):
                found += _range_warnings(text, f"{path}.except[{index}]")
        return found


def _rules(spec: JsonObject) -> Iterator[tuple[str, JsonObject, str]]:
    """Yield the path of each rule, the rule, and the field of its peers."""
    for direction, peers in _RULES:
        for index, rule in enumerate(spec.get(direction) or ()):
            yield f"spec.{direction}[{index}]", rule, peers


def _blocks(policy: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for path, rule, field in _rules(checks.mapping(policy, "spec")):
        for index, peer in enumerate(rule.get(field) or ()):
            if peer.get("ipBlock") is not None:
                yield f"{path}.{field}[{index}].ipBlock", peer["ipBlock"]


def _validate(policy: JsonObject, known: frozenset[str], errors: FieldErrors) -> None:
    """Check a policy. Ranges in `known` are in the stored object already, and stay valid."""
    spec = checks.mapping(policy, "spec")
    checks.label_selector(spec.get("podSelector"), "spec.podSelector", errors)
    # every node reads every policy, so Tarmac bounds their entries, which Kubernetes does not
    large = [too_many(spec.get(direction) or [], peers, f"spec.{direction}", errors) for direction, peers in _RULES]
    if any(large):
        return
    for path, rule, field in _rules(spec):
        for index, port in enumerate(rule.get("ports") or ()):
            _validate_port(port, f"{path}.ports[{index}]", errors)
        for index, peer in enumerate(rule.get(field) or ()):
            _validate_peer(peer, f"{path}.{field}[{index}]", known, errors)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_TYPES):
        errors.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, each in enumerate(types):
        if each not in _TYPES:
            errors.not_supported(f"spec.policyTypes[{index}]", each, _TYPES)


def _validate_port(port: JsonObject, path: str, errors: FieldErrors) -> None:
    if port["protocol"] not in _PROTOCOLS:
        errors.not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            errors.invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(number, int):
        checks.port_number(number, f"{path}.port", errors)
        if end is not None:
            if end < number:
                errors.invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")
            checks.port_number(end, f"{path}.endPort", errors)
    else:
        if end is not None:
            errors.invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
        checks.report(names.port_name(number), number, f"{path}.port", errors)


def _validate_peer(peer: JsonObject, path: str, known: frozenset[str], errors: FieldErrors) -> None:
    selectors = [field for field in ("podSelector", "namespaceSelector") if peer.get(field) is not None]
    for field in selectors:
        checks.label_selector(peer[field], f"{path}.{field}", errors)
    block = peer.get("ipBlock")
    if block is not None:
        _validate_block(block, f"{path}.ipBlock", known, errors)
    if not selectors and block is None:
        errors.required(path, "must specify a peer")
    elif selectors and block is not None:
        errors.forbidden(path, "may not specify both ipBlock and another peer")


def _validate_block(block: JsonObject, path: str, known: frozenset[str], errors: FieldErrors) -> None:
    text = block.get("cidr", "")
    if not text:
        errors.required(f"{path}.cidr")
        return
    whole = _checked(text, f"{path}.cidr", known, errors)
    if whole is None:
        return
    for index, part in enumerate(block.get("except") or ()):
        inner = _checked(part, f"{path}.except[{index}]", known, errors)
        if inner is None:
            continue
        same = inner.version == whole.version
        if not same or inner.network_address not in whole or whole.prefixlen >= inner.prefixlen:
            errors.invalid(f"{path}.except[{index}]", part, "must be a strict subset of `cidr`")


def _checked(
    text: str, path: str, known: frozenset[str], errors: FieldErrors
) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    found = names.cidr(text)
    if text not in known:
        checks.report(found, text, path, errors)
    return None if found else names.address_range(text)


def _range_warnings(text: str, path: str) -> list[str]:
    if names.cidr(text):
        return []
    found = names.address_range(text)
    address, warnings = names.plain_address(text.partition("/")[0]), list[str]()
    if address != found.network_address:
        single = f"{address}/{address.max_prefixlen}"
        warnings.append(
            f'{path}: CIDR value "{text}" is ambiguous in this context (should be "{found}" or "{single}"?)'
        )
    strict = names.cidr(text, strict=True)
    if strict and "beyond" not in strict[0]:
        warnings.append(
            f'{path}: non-standard CIDR value "{text}" will be considered invalid in a future Kubernetes release: '
            f'use "{found}"'
        )
    if not warnings and found.version == 6 and str(found) != text:
        warnings.append(f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{found}")')
    return warnings
