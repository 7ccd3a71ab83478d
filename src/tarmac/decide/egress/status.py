"""Status of an ExternalService: each source, each port, and one condition for each step up to the first packet.

Ready means that packets pass: the target is outside, every source is resolved, every address is bound and owned, and
the owner and every Ready node with source pods have acknowledged the newest rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tarmac.api.egress.externalservice import (
    ExternalServiceStatus,
    ExternalServiceSummary,
    PortStatus,
    ServiceReference,
    SourceStatus,
)
from tarmac.api.egress.forwarding import Forwarder, Gateway, GatewayNodeStatus
from tarmac.decide import reasons
from tarmac.decide.egress.compiling import Compiled, dial_port, serving_pods
from tarmac.decide.egress.sourceresolution import ResolvedSource
from tarmac.decide.egress.sources import Resolution
from tarmac.decide.rollup.conditions import Finding, most_actionable
from tarmac.decide.verdict import Refusal

_BOUND_BY = "claim"  # the rule of refusals that concern addresses rather than pods
_HARMLESS = (reasons.AMBIGUOUS_SOURCE,)


@dataclass(slots=True)
class Observed:
    """Existing objects for the compiled rules. `unassigned` maps addresses to why no node may carry them."""

    forwarders: Mapping[str, Forwarder] = field(default_factory=dict[str, Forwarder])  # by node
    gateways: Mapping[str, Gateway] = field(default_factory=dict[str, Gateway])  # by the name of the SourceIP
    unassigned: Mapping[str, Refusal] = field(default_factory=dict[str, Refusal])


def owner_of(gateway: Gateway | None) -> GatewayNodeStatus | None:
    """Return the owner of an address as reported by the nodes; of several, the one with the highest epoch.

    Only candidates and leaving nodes can own it; a report of any other node does not count.
    """
    if gateway is None or gateway.status is None:
        return None
    able = {each.name for each in (*gateway.spec.candidates, *gateway.spec.leaving)}
    owners = (each for each in gateway.status.nodes if each.owner and each.name in able)
    return max(owners, key=lambda each: each.epoch, default=None)


def is_applied(forwarder: Forwarder | None) -> bool:
    """Return True if the node has applied the newest generation of a Forwarder without errors."""
    if forwarder is None or forwarder.status is None:
        return False
    return forwarder.status.applied_generation == forwarder.metadata.generation and not forwarder.status.errors


def roll_up(
    found: Resolution, made: Compiled, dialled: str, seen: Observed
) -> tuple[ExternalServiceStatus, list[Finding]]:
    """Return the status without its conditions, and the findings for the conditions."""
    spec, own = found.service.spec, found.service.metadata
    ports = [PortStatus(dial_port(port), port.port, port.protocol) for port in spec.ports]
    findings = list(_findings(found, made, seen))
    status = ExternalServiceStatus(
        observed_generation=own.generation,
        addresses=[dialled] if dialled else [],
        hostname=f"{own.name}.{own.namespace}.external-services",
        networks=found.networks,
        sources=[_source(found, source, seen) for source in found.sources],
        ports=ports,
        summary=_summary(found, seen, ports),
    )
    return status, findings


def _summary(found: Resolution, seen: Observed, ports: Iterable[PortStatus]) -> ExternalServiceSummary:
    owners = (owner_of(seen.gateways.get(name)) for name in sorted(_addresses(found)))
    return ExternalServiceSummary(
        ports=",".join(f"{port.dial_port}:{port.target_port}/{port.protocol}" for port in ports),
        sources=f"{sum(_is_programmed(found, each, seen) for each in found.sources)}/{len(found.sources)}",
        gateway=",".join(dict.fromkeys(owner.name for owner in owners if owner is not None)),
    )


def _addresses(found: Resolution) -> set[str]:
    return {source.source_ip.metadata.name for source in found.working if source.source_ip is not None}


def _programmed_pods(source: ResolvedSource, seen: Observed) -> int:
    return sum(is_applied(seen.forwarders.get(pod.node.name)) for pod in source.pods)


def _is_programmed(found: Resolution, source: ResolvedSource, seen: Observed) -> bool:
    return source in found.working and bool(source.pods) and _programmed_pods(source, seen) == len(source.pods)


def _source(found: Resolution, source: ResolvedSource, seen: Observed) -> SourceStatus:
    own = source.key.partition("/")
    worst = found.refusal or most_actionable([*source.refusals, *source.remarks])
    name = source.source_ip.metadata.name if source.source_ip is not None else ""
    owner = owner_of(seen.gateways.get(name))
    works = source in found.working
    return SourceStatus(
        service=ServiceReference(own[2], own[0]),
        source_ips=[source.address] if source.address else [],
        gateway=owner.name if owner is not None else "",
        location=source.source_ip.spec.location if source.source_ip is not None else "",
        pods_matched=len(source.pods),
        pods_programmed=_programmed_pods(source, seen) if works else 0,
        inbound_endpoints=len(serving_pods(source)) if works and source.open_ports else 0,
        reason=worst.reason if worst is not None else "",
        message=_message(worst) if worst is not None else "",
    )


def _findings(found: Resolution, made: Compiled, seen: Observed) -> Iterator[Finding]:
    findings = [
        _no("Accepted", [found.refusal] if found.refusal is not None else [])
        or Finding("Accepted", "True", reasons.RULES_IN_FORCE, "The target is outside the platform."),
        _no("SourcesResolved", _about_sources(found, bound=False))
        or Finding("SourcesResolved", "True", reasons.RULES_IN_FORCE, "Every source is known and may use the service."),
        _no("AddressesBound", _about_sources(found, bound=True))
        or Finding("AddressesBound", "True", reasons.ADDRESS_BOUND, "A claim holds each address."),
        _no("GatewayAssigned", _unowned(found, seen))
        or Finding("GatewayAssigned", "True", reasons.GATEWAY_OWNS, "A gateway carries each address."),
        _no("Programmed", _unprogrammed(found, made, seen))
        or Finding("Programmed", "True", reasons.RULES_IN_FORCE, "Every node concerned has the newest rules."),
    ]
    yield from findings
    yield _ready(found, findings)
    # Never false: in its own namespace the short name leads here, and a conflict elsewhere would tell of objects there.
    yield Finding("ShortName", "True", reasons.RULES_IN_FORCE, "The short name leads here.")


def _no(type: str, refusals: Iterable[Refusal]) -> Finding | None:
    worst = most_actionable(refusals)
    return Finding(type, "False", worst.reason, _message(worst)) if worst is not None else None


def _message(refusal: Refusal) -> str:
    """Return the message of a status; for rules beyond a limit with the remedy, since the numbers alone show none."""
    is_limit = refusal.reason == reasons.TOO_MANY_RULES
    return f"{refusal.message} {refusal.change}".rstrip() if is_limit else refusal.message


def _ready(found: Resolution, findings: Iterable[Finding]) -> Finding:
    missing = [Refusal(each.reason, each.message) for each in findings if not each.holds]
    if not missing and not any(source.pods for source in found.sources):
        missing = [Refusal(reasons.NO_PODS, "None of its sources has a pod.")]
    return _no("Ready", missing) or Finding("Ready", "True", reasons.RULES_IN_FORCE, "Packets pass.")


def _about_sources(found: Resolution, *, bound: bool) -> list[Refusal]:
    every = [each for source in found.sources for each in (*source.refusals, *source.remarks)]
    return [each for each in every if (each.rule == _BOUND_BY) == bound and each.reason not in _HARMLESS]


def _unowned(found: Resolution, seen: Observed) -> Iterator[Refusal]:
    for name in sorted(_addresses(found)):
        if owner_of(seen.gateways.get(name)) is None:
            yield from conflicts(name, seen.gateways.get(name))
            yield seen.unassigned.get(name) or Refusal(reasons.OWNER_CHANGING, f"No gateway carries {name} yet.", name)


def conflicts(name: str, gateway: Gateway | None) -> Iterator[Refusal]:
    """Yield the conflicts with foreign hosts that gateways report; none while an owner carries the address."""
    if owner_of(gateway) is not None:
        return
    for node in gateway.status.nodes if gateway is not None and gateway.status is not None else ():
        for error in node.errors:
            if error.rule == reasons.ADDRESS_CONFLICT:
                change = f"Take {name} from the host that has it, or keep it out of the class's ranges."
                yield Refusal(
                    reasons.ADDRESS_CONFLICT, f"{node.name} says: {error.short_message}.", name, change=change
                )


def _unprogrammed(found: Resolution, made: Compiled, seen: Observed) -> Iterator[Refusal]:
    ready = {pod.node.name for source in found.working for pod in source.pods if pod.node.ready}
    for node, spec in sorted(made.forwarders.items()):
        known = seen.forwarders.get(node)
        if node in ready and not (known is not None and known.spec == spec and is_applied(known)):
            errors = known.status.errors if known is not None and known.status is not None else []
            yield _unacknowledged(node, errors[0].short_message if errors else "")
    for name in sorted(_addresses(found)):
        gateway = seen.gateways.get(name)
        owner = owner_of(gateway)
        newest = gateway.metadata.generation if gateway is not None else 0
        if owner is not None and (owner.errors or owner.applied_generation != newest):
            yield _unacknowledged(owner.name, owner.errors[0].short_message if owner.errors else "")


def _unacknowledged(node: str, error: str) -> Refusal:
    if error:
        return Refusal(reasons.PROGRAMMING_FAILED, f"Node {node} could not apply its rules: {error}", node)
    return Refusal(reasons.PROGRAMMING, f"Node {node} has not acknowledged the newest rules yet.", node)
