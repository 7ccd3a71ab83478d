"""Traffic rules, validated as in Kubernetes' NetworkPolicy, with a limit on their number."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.networking.validation.ranges import Range, parse_range
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

MAX_ENTRIES = 2000
"""Limit on rules, ports, peers and exceptions of one list of rules together: every write checks all of them."""

_PROTOCOLS = ("TCP", "UDP", "SCTP")


def check_ingress(rules: list[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check rules for ingress."""
    _rules(rules, "from", path, errors)


def check_egress(rules: list[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check rules for egress."""
    _rules(rules, "to", path, errors)


def _rules(rules: list[JsonObject], peers: str, path: str, errors: FieldErrors) -> None:
    if too_many(rules, peers, path, errors):
        return
    for index, rule in enumerate(rules):
        for number, port in enumerate(objects(rule, "ports")):
            _port(port, f"{path}[{index}].ports[{number}]", errors)
        for number, peer in enumerate(objects(rule, peers)):
            _peer(peer, f"{path}[{index}].{peers}[{number}]", errors)


def too_many(rules: list[JsonObject], peers: str, path: str, errors: FieldErrors) -> bool:
    """Reject lists beyond MAX_ENTRIES. Return True for these: their entries are not to be checked."""
    count = sum(_entries(rule, peers) for rule in rules)
    if count > MAX_ENTRIES:
        detail = f"must have at most {MAX_ENTRIES} rules, ports, peers and exceptions together, and has {count}"
        errors.add("TooMany", path, count, f"{detail}: use larger ranges, or several policies")
    return count > MAX_ENTRIES


def _entries(rule: JsonObject, peers: str) -> int:
    chosen = objects(rule, peers)
    blocks = (mapping(peer, "ipBlock") for peer in chosen)
    return 1 + len(objects(rule, "ports")) + len(chosen) + sum(len(block.get("except") or ()) for block in blocks)


def _port(port: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.one_of(port.get("protocol", "TCP"), _PROTOCOLS, f"{path}.protocol", errors)
    first, last = port.get("port"), port.get("endPort")
    if first is not None:
        checks.port_number_or_name(first, f"{path}.port", errors)
    if last is None:
        return
    if first is None:
        errors.invalid(f"{path}.endPort", last, "may not be specified when `port` is not specified")
    elif isinstance(first, str):
        errors.invalid(f"{path}.endPort", last, "may not be specified when `port` is non-numeric")
    else:
        if last < first:
            errors.invalid(f"{path}.endPort", first, "must be greater than or equal to `port`")
        checks.port_number(last, f"{path}.endPort", errors)


def _peer(peer: JsonObject, path: str, errors: FieldErrors) -> None:
    chosen = [kind for kind in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(kind) is not None]
    for kind in chosen[:2]:
        if kind != "ipBlock":
            checks.label_selector(peer[kind], f"{path}.{kind}", errors)
    if "ipBlock" in chosen:
        _block(peer["ipBlock"], f"{path}.ipBlock", errors)
    if not chosen:
        errors.required(path, "must specify a peer")
    elif "ipBlock" in chosen and len(chosen) > 1:
        errors.forbidden(path, "may not specify both ipBlock and another peer")


def _block(block: JsonObject, path: str, errors: FieldErrors) -> None:
    written = block.get("cidr", "")
    if not written:
        errors.required(f"{path}.cidr")
        return
    whole = parse_range(written, f"{path}.cidr", errors)
    for index, inner in enumerate(block.get("except") or ()):
        where = f"{path}.except[{index}]"
        part = parse_range(inner, where, errors)
        if whole is not None and part is not None and not _strictly_within(part, whole):
            errors.invalid(where, inner, "must be a strict subset of `cidr`")


def _strictly_within(part: Range, whole: Range) -> bool:
    if part.version != whole.version or part.prefixlen <= whole.prefixlen:
        return False
    return int(whole.network_address) <= int(part.network_address) <= int(whole.broadcast_address)
