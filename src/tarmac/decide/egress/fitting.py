"""Compiles an ExternalService into rules that its Forwarders and Gateways can hold.

An object holds a limited number of values, and the server refuses a larger one as a whole. A Forwarder has a rule for
each pair of a Pod and a port; a Gateway has the rules of every ExternalService that shares its address. Pods and nodes
beyond the limit are left out with a reason that names the numbers. Those that already have rules keep them, and other
ExternalServices of the address are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set

import msgspec

from tarmac.api.decode.extent import MAX_VALUES, count_values
from tarmac.api.egress.forwarding import Forwarder, ForwarderSpec, Gateway, GatewayRule, GatewaySpec
from tarmac.api.egress.names import forwarder_name
from tarmac.decide import reasons
from tarmac.decide.egress.compiling import Compiled, GatewayPart, compile_service
from tarmac.decide.egress.gateways import rules_of, with_part
from tarmac.decide.egress.sourceresolution import ResolvedSource, SourcePod
from tarmac.decide.egress.sources import Resolution
from tarmac.decide.verdict import Refusal

MAX_SPEC_VALUES = MAX_VALUES - 500  # the rest is for metadata, candidates and voters
_MAX_VALUES_OF_RULE = 20

GatewayOf = Callable[[str], Gateway | None]
"""Finds the Gateway of a SourceIP by its name."""

_encode = msgspec.json.Encoder(enc_hook=str).encode


def compile_fitting(
    found: Resolution, dialled: str, known: Mapping[str, Forwarder], taken: Container[int], gateway: GatewayOf
) -> Compiled:
    """Compile like `compile_service`; Pods that do not fit leave `found`, and their sources get a remark."""
    made = compile_service(found, dialled, known, taken)
    while _trim_forwarders(found, made, known) or _trim_gateways(found, made, gateway):  # each removes a Pod or more
        made = compile_service(found, dialled, known, taken)
    return made


def _trim_forwarders(found: Resolution, made: Compiled, known: Mapping[str, Forwarder]) -> bool:
    """Leave out the newest Pods of nodes with a Forwarder that would be too large; return True if there were any."""
    surplus: set[str] = set()
    for node, spec in made.forwarders.items():
        values = _values(spec)
        if values <= MAX_SPEC_VALUES:
            continue
        present = {rule.pod for rule in known[node].spec.egress_rules} if node in known else set[str]()
        uids = {pod.uid for source in found.working for pod in source.pods if pod.node.name == node}
        oldest_first = sorted(uids, key=lambda uid: (uid not in present, uid))
        kept = min(len(uids) - 1, len(uids) * MAX_SPEC_VALUES // values)
        surplus.update(oldest_first[kept:])
        limit = f"Node {node}: {len(uids)} Pods need rules of {values} values, the limit is {MAX_SPEC_VALUES}"
        ports = len(found.service.spec.ports)
        change = (
            f"Name fewer than {ports} ports, spread the Pods over more nodes, or give some sources to another "
            "ExternalService of the same target."
        )
        _leave_out(found, lambda _, pod, gone=frozenset(oldest_first[kept:]): pod.uid in gone, limit, change)
    return bool(surplus)


def _trim_gateways(found: Resolution, made: Compiled, gateway: GatewayOf) -> bool:
    """Leave out the newest nodes of an address if its Gateway would be too large; return True if there were any."""
    own = found.service.metadata
    for name, part in made.gateways.items():
        present = gateway(name)
        before = present.spec if present is not None else GatewaySpec()
        values = _values(with_part(before, rules_of(own.namespace, own.name), part))
        nodes = _newest_first(part, before)
        if values <= MAX_SPEC_VALUES or not nodes:
            continue
        each = max(1, _values(GatewaySpec(egress_rules=part.egress, ingress_rules=part.ingress)) // len(nodes))
        gone = frozenset(nodes[: max(1, -(-(values - MAX_SPEC_VALUES) // each))])
        limit = f"Address {name}: its Gateway would have {values} values, the limit is {MAX_SPEC_VALUES}"
        change = "Claim another address for some sources, name fewer ports, or run the Pods on fewer nodes."
        _leave_out(
            found, lambda source, pod, at=name, gone=gone: _is_at(source, at) and _of(found, pod) in gone, limit, change
        )
        return True
    return False


def _is_at(source: ResolvedSource, name: str) -> bool:
    return source.source_ip is not None and source.source_ip.metadata.name == name


def _of(found: Resolution, pod: SourcePod) -> str:
    own = found.service.metadata
    return forwarder_name(own.namespace, own.name, pod.node.name)


def _values(spec: ForwarderSpec | GatewaySpec) -> int:
    """Count the values of a spec; an upper bound where that is small, because encoding takes milliseconds."""
    bound = _MAX_VALUES_OF_RULE * (len(spec.egress_rules) + len(spec.ingress_rules))
    return bound if bound < MAX_SPEC_VALUES // 2 else count_values(_encode(spec))


def _newest_first(part: GatewayPart, before: GatewaySpec) -> list[str]:
    """Return the Forwarders of a part; those without rules at the Gateway come first."""
    present = _forwarders(before.egress_rules)
    return sorted(_forwarders([*part.egress, *part.ingress]), key=lambda name: (name in present, name))


def _forwarders(rules: list[GatewayRule]) -> Set[str]:
    return {rule.forwarder.name for rule in rules if rule.forwarder is not None}


def _leave_out(
    found: Resolution, is_surplus: Callable[[ResolvedSource, SourcePod], bool], limit: str, change: str
) -> None:
    for source in found.working:
        stay = [pod for pod in source.pods if not is_surplus(source, pod)]
        if len(stay) < len(source.pods) and all(each.reason != reasons.TOO_MANY_RULES for each in source.remarks):
            message = f"{limit}; some Pods are left out."
            source.remarks.append(Refusal(reasons.TOO_MANY_RULES, message, source.key, "rules", change))
        source.pods = stay
