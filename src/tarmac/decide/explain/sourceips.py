"""Explains SourceIPClaims, SourceIPs and SourceIPClasses: bindings, the state of an address, usability of a class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.egress.addressrules import bounds_of
from tarmac.api.egress.names import API_VERSION
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim
from tarmac.base.duration import format_duration
from tarmac.decide import reasons
from tarmac.decide.egress.addressclasses import class_findings, overlapped_by, pools
from tarmac.decide.egress.binding import decide_claim
from tarmac.decide.egress.candidates import HANDOVER_TIMEOUT
from tarmac.decide.egress.claims import RESTING, holders, phase_of
from tarmac.decide.egress.pool import Takes
from tarmac.decide.egress.snapshotworld import SnapshotWorld
from tarmac.decide.egress.status import owner_of
from tarmac.decide.explain.answer import explanation, finding_line, refusal_line, yes
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.snapshot.egressobjects import SOURCE_IP_CLAIMS, SOURCE_IP_CLASSES, SOURCE_IPS
from tarmac.decide.snapshot.snapshot import Snapshot
from tarmac.decide.verdict import Refusal, Verdict


def explain_source_ip_claim(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of a claim; None when it does not exist."""
    claim = SOURCE_IP_CLAIMS.get(snapshot, key)
    if claim is None:
        return None
    world = SnapshotWorld(snapshot)
    offered = world.address_class(claim.spec.class_name)
    verdict = decide_claim(claim, offered, world.pool(offered) if offered is not None else None, world)
    return explain_claim(claim, verdict, [*_standing(claim, world), *_in_use(claim, world)])


def explain_claim(
    claim: SourceIPClaim, verdict: Verdict[Takes], more: list[ExplanationLine] | None = None
) -> Explanation:
    """Explain the addresses that the claim holds, or why it holds none."""
    own, others = claim.metadata, more or []
    subject = Subject(API_VERSION, "SourceIPClaim", own.namespace, own.name)
    if verdict.value is None:
        refusals = [each if each.rule else replace(each, rule="claim") for each in verdict.refusals]
        lines = [refusal_line(each) for each in refusals or [_unseen()]]
        return explanation(subject, "holds no address", [*lines, *others])
    held = ", ".join(str(take.address) for take in verdict.value)
    if not all(take.held for take in verdict.value):  # decided, and not yet written by the controller
        return explanation(subject, "holds no address yet", [refusal_line(_unseen()), *others])
    return explanation(subject, f"holds {held}", [yes(reasons.ADDRESS_BOUND, f"{held} is held", "claim"), *others])


def _unseen() -> Refusal:
    return Refusal(reasons.CLAIM_NOT_BOUND, "An address is free for it: it is about to be bound.", rule="claim")


def _standing(claim: SourceIPClaim, world: SnapshotWorld) -> Iterator[ExplanationLine]:
    """Yield a line for a bound claim of a namespace that its class no longer allows.

    The claim keeps its address, but no traffic is carried.
    """
    offered, namespace = world.address_class(claim.spec.class_name), claim.metadata.namespace
    bound = claim.status is not None and claim.status.phase == "Bound"
    if bound and offered is not None and not world.allowed(offered, namespace):
        message = f"SourceIPClass {claim.spec.class_name} no longer allows namespace {namespace}: nothing is carried."
        yield refusal_line(Refusal(reasons.NOT_AUTHORIZED, message, rule="class", change="Ask a manager to allow it."))


def _in_use(claim: SourceIPClaim, world: SnapshotWorld) -> Iterator[ExplanationLine]:
    for each in world.naming(claim):
        yield yes(reasons.ADDRESS_BOUND, f"ExternalService {each.metadata.name} uses it", "use")


def explain_source_ip(snapshot: Snapshot, name: str) -> Explanation | None:
    """Return the explanation of an address; None when it has no object."""
    address = SOURCE_IPS.get(snapshot, name)
    if address is None:
        return None
    world = SnapshotWorld(snapshot)
    phase = phase_of(address) or "new"
    lines = [*_class_lines(address, world), *_holder_lines(address), *_carrier_lines(address, world)]
    return explanation(Subject(API_VERSION, "SourceIP", "", name), f"is {phase}", lines)


def _class_lines(address: SourceIP, world: SnapshotWorld) -> Iterator[ExplanationLine]:
    name = address.spec.class_name
    offered = world.address_class(name)
    if offered is None:
        yield refusal_line(Refusal(reasons.CLASS_NOT_FOUND, f"SourceIPClass {name} does not exist.", rule="class"))
    elif not Ranges(offered.spec).hold(ip_address(address.spec.address)):
        message = f"No range of SourceIPClass {name} holds it."
        yield refusal_line(Refusal(reasons.ADDRESS_NOT_IN_CLASS, message, rule="class", change="Put the range back."))


def _holder_lines(address: SourceIP) -> Iterator[ExplanationLine]:
    status, resting = address.status, phase_of(address) in RESTING
    last = status.last_claim if status is not None else None
    if resting:
        whose = f" of claim {last.namespace}/{last.name}" if last is not None else ""
        until = f" until {status.quarantined_until}" if status is not None and status.quarantined_until else ""
        kept = address.spec.reclaim_policy == "Retain" and address.spec.claim_ref is not None
        message = f"It was that{whose} and rests{until}" if whose else f"It rests{until}"
        change = "Take spec.claimRef off to let it rest and become free." if kept else ""
        yield refusal_line(Refusal(reasons.ADDRESS_QUARANTINED, message, rule="claim", change=change))
    for each in holders(address) if not resting else ():
        held = "is held by" if each.uid else "is set aside for"
        yield yes(reasons.ADDRESS_BOUND, f"It {held} claim {each.namespace}/{each.name}", "claim")


def _carrier_lines(address: SourceIP, world: SnapshotWorld) -> Iterator[ExplanationLine]:
    """Yield lines about the address's gateway, or why it has none, and its users.

    An unused address needs no gateway.
    """
    name = address.metadata.name
    owner = owner_of(world.gateway(name))
    users = world.users(name)
    if owner is not None:
        view = world.node(owner.name)
        city = view.city if view is not None else ""
        yield yes(reasons.GATEWAY_OWNS, f"It is carried by {owner.name}", "gateway", city, owner.name)
        yield from _handover_lines(name, world)
    elif users and phase_of(address) not in RESTING:
        verdict = world.assigned(name)
        waiting = Refusal(reasons.OWNER_CHANGING, "No gateway carries it yet.", rule="gateway")
        yield refusal_line(verdict.refusals[0] if verdict.value is None and verdict.refusals else waiting)
    for each in users:
        yield yes(
            reasons.ADDRESS_BOUND, f"ExternalService {each.metadata.namespace}/{each.metadata.name} uses it", "use"
        )


def _handover_lines(name: str, world: SnapshotWorld) -> Iterator[ExplanationLine]:
    """Yield a line while a cordoned owner waits for its partner."""
    waits = world.handover(name)
    if waits is None:
        return
    left = waits.deadline - world.now() if waits.deadline is not None else HANDOVER_TIMEOUT
    limit = f"in {format_duration(max(0, round(left)))} at the latest"
    message = f"{waits.owner.name} is cordoned and waits until {waits.next} knows its connections; it moves {limit}."
    yield refusal_line(Refusal(reasons.OWNER_CHANGING, message, rule="gateway"), waits.owner.city, waits.owner.name)


def explain_source_ip_class(snapshot: Snapshot, name: str) -> Explanation | None:
    """Return the explanation of a class; None when it does not exist."""
    offered = SOURCE_IP_CLASSES.get(snapshot, name)
    if offered is None:
        return None
    world = SnapshotWorld(snapshot)
    findings = class_findings(offered, overlapped_by(offered, world.classes()), list(world.nodes().values()))
    mine = [each for each in SOURCE_IPS.all(snapshot) if each.spec.class_name == name]
    families = {bounds_of(each).family for each in offered.spec.ranges}
    use = pools(Ranges(offered.spec, world.addresses_of_nodes), mine, families)
    lines = [finding_line(each) for each in findings]
    for each in use:
        counted = f"{each.available} of {each.total} {each.family} addresses are free, {each.quarantined} rest"
        full = Refusal(reasons.POOL_EXHAUSTED, counted, rule="pool", change=f"Add a range to SourceIPClass {name}.")
        lines.append(yes(reasons.ADDRESS_BOUND, counted, "pool") if each.available else refusal_line(full))
    allowed = offered.spec.allowed_namespaces
    if allowed is None or not (allowed.names or allowed.selector):
        message = "No namespace may use it"
        lines.append(
            refusal_line(Refusal(reasons.NOT_AUTHORIZED, message, rule="class", change="Set spec.allowedNamespaces."))
        )
    ready = findings[0].holds
    return explanation(
        Subject(API_VERSION, "SourceIPClass", "", name), "can be used" if ready else "cannot be used", lines
    )
