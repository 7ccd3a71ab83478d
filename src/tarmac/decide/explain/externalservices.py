"""Explains an ExternalService: each source, rule and node, by the decisions of its controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.egress.names import API_VERSION
from tarmac.decide import reasons
from tarmac.decide.egress.compiling import Compiled
from tarmac.decide.egress.fitting import compile_fitting
from tarmac.decide.egress.observing import observe
from tarmac.decide.egress.snapshotworld import SnapshotWorld
from tarmac.decide.egress.sourceresolution import ResolvedSource
from tarmac.decide.egress.sources import Resolution, resolve
from tarmac.decide.egress.status import Observed, is_applied, owner_of, roll_up
from tarmac.decide.explain.answer import explanation, refusal_line, yes
from tarmac.decide.snapshot.egressobjects import EXTERNAL_SERVICES
from tarmac.decide.snapshot.snapshot import Snapshot
from tarmac.decide.verdict import Refusal


def explain_external_service(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of an ExternalService; None when it does not exist."""
    service = EXTERNAL_SERVICES.get(snapshot, key)
    if service is None:
        return None
    world = SnapshotWorld(snapshot)
    found = resolve(service, world)
    dialled = service.status.addresses[0] if service.status is not None and service.status.addresses else ""
    nodes = {pod.node.name for source in found.working for pod in source.pods}
    known = {node: world.forwarder(service, node) for node in sorted(nodes)}
    forwarders = {node: each for node, each in known.items() if each is not None}
    made = compile_fitting(found, dialled, forwarders, (), world.gateway)
    return explain_service(found, made, dialled, observe(found, forwarders, world))


def explain_service(found: Resolution, made: Compiled, dialled: str, seen: Observed) -> Explanation:
    """Return a line for each rule and source: target, service and grant, claim, pods, gateway, rules, inbound, name."""
    own = found.service.metadata
    _, findings = roll_up(found, made, dialled, seen)
    by_type = {each.type: each for each in findings}
    lines = [*_about_target(found), *(line for source in found.sources for line in _about(found, source, seen))]
    missing = by_type["Ready"]
    if not missing.holds and all(line.answer == "Yes" for line in lines):
        lines.append(refusal_line(Refusal(missing.reason, missing.message, rule="rules")))
    name = by_type["ShortName"]
    lines.append(yes(name.reason, name.message, "name"))
    subject = Subject(API_VERSION, "ExternalService", own.namespace, own.name)
    return explanation(subject, "works" if missing.holds else "does not work", lines)


def _about_target(found: Resolution) -> Iterator[ExplanationLine]:
    if found.refusal is not None:
        yield refusal_line(found.refusal)
    else:
        yield yes(reasons.RULES_IN_FORCE, f"{found.target} is outside the platform.", "target")


def _about(found: Resolution, source: ResolvedSource, seen: Observed) -> Iterator[ExplanationLine]:
    for refusal in (*source.refusals, *source.remarks):
        yield refusal_line(refusal)
    if source not in found.working or source.source_ip is None:
        return
    yield yes(reasons.ADDRESS_BOUND, f"Pods of {source.key} are seen as {source.address}", "claim")
    name = source.source_ip.metadata.name
    gateway = seen.gateways.get(name)
    owner = owner_of(gateway)
    if gateway is not None and owner is not None:
        city = next((each.city for each in gateway.spec.candidates if each.name == owner.name), "")
        yield yes(reasons.GATEWAY_OWNS, f"{source.address} is carried by {owner.name}", "gateway", city, owner.name)
    else:
        waiting = Refusal(reasons.OWNER_CHANGING, f"No gateway carries {source.address} yet.")
        yield refusal_line(replace(seen.unassigned.get(name) or waiting, rule="gateway"))
    yield from _about_nodes(source, seen)
    if source.open_ports:
        ports = ", ".join(f"{port.number}/{port.protocol}" for port in source.open_ports)
        yield yes(
            reasons.RULES_IN_FORCE, f"The target reaches {source.key} at {source.address}, ports {ports}", "inbound"
        )


def _about_nodes(source: ResolvedSource, seen: Observed) -> Iterator[ExplanationLine]:
    if not source.pods:
        yield refusal_line(Refusal(reasons.NO_PODS, f"No pod of {source.key} is there.", rule="pods"))
    for (city, node), pods in sorted(Counter((pod.node.city, pod.node.name) for pod in source.pods).items()):
        some = f"{pods} {'pod' if pods == 1 else 'pods'} of {source.key}"
        if is_applied(seen.forwarders.get(node)):
            yield yes(reasons.RULES_IN_FORCE, f"{some} may use it", "rules", city, node)
        else:
            message = f"The rules for {some} are on their way"
            yield refusal_line(Refusal(reasons.PROGRAMMING, message, rule="rules"), city, node)
