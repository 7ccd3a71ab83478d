"""Status of a SourceIPClass: use of its address pools, readiness, and redundancy of its gateways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tarmac.api.egress.sourceip import ClassSummary, PoolUse, SourceIP, SourceIPClass
from tarmac.api.shared import IPFamily
from tarmac.decide import reasons
from tarmac.decide.egress.candidates import candidates, partners, voters
from tarmac.decide.egress.claims import RESTING, holders, phase_of
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.overlap import RangeOwner, overlapped_by_older
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.rollup.conditions import Finding
from tarmac.decide.verdict import Refusal

_MAX_NAMED = 3


def _age(offered: SourceIPClass) -> tuple[str, str]:
    return offered.metadata.creation_timestamp or "", offered.metadata.name


def overlapped_by(offered: SourceIPClass, classes: Iterable[SourceIPClass]) -> Refusal | None:
    """Return a refusal if an older class has overlapping ranges: the younger class is not used then."""
    return overlapped_by_older(_range_owner(offered), map(_range_owner, classes))


def _range_owner(offered: SourceIPClass) -> RangeOwner:
    return RangeOwner(_age(offered), f"SourceIPClass {offered.metadata.name}", offered.spec.ranges)


def is_in_use(source_ips: Iterable[SourceIP]) -> bool:
    """Return True if addresses of a class are held, released or quarantined."""
    return any(holders(each) or phase_of(each) in RESTING for each in source_ips)


def pools(ranges: Ranges, source_ips: Sequence[SourceIP], families: Iterable[int]) -> list[PoolUse]:
    """Count the addresses of each family by state."""
    found: list[PoolUse] = []
    for family in sorted(families):
        mine = [each for each in source_ips if (":" in each.spec.address) == (family == 6)]
        resting = sum(phase_of(each) in RESTING for each in mine)
        bound = sum(bool(holders(each)) and phase_of(each) not in RESTING for each in mine)
        total = ranges.size(family)
        name: IPFamily = "IPv4" if family == 4 else "IPv6"
        found.append(PoolUse(name, "", total, bound, max(0, total - bound - resting), resting))
    return found


def summary(use: Iterable[PoolUse]) -> ClassSummary:
    """Sum up bound and available addresses of all families."""
    every = list(use)
    return ClassSummary(sum(each.bound for each in every), min(sum(each.available for each in every), 1 << 53))


def class_findings(offered: SourceIPClass, overlap: Refusal | None, nodes: Sequence[NodeView]) -> list[Finding]:
    """Return `Ready` (candidate, no overlap) and `Redundant` (two candidates, three voters, synchronized peers)."""
    first = offered.spec.ranges[0]
    address = first.start or str(first.cidr).partition("/")[0]
    verdict = candidates(offered.spec, address, nodes)
    able = verdict.value or ()
    refusal = overlap or (verdict.refusals[0] if verdict.value is None else None)
    ready = (
        Finding("Ready", "False", refusal.reason, refusal.message)
        if refusal is not None
        else Finding("Ready", "True", reasons.GATEWAY_OWNS, f"{len(able)} nodes may carry its addresses.")
    )
    return [ready, _redundant(offered, able, nodes)]


def _unshared(able: Sequence[NodeView]) -> str:
    """Return why some gateway's connections are not synchronized to a peer; empty if all are."""
    without = sorted(node.name for node in able if node.facts is None or not node.facts.state_sync)
    if without:
        return f"Connections of {_some(without)} are known to no other gateway: conntrackd does not run there."
    alone = sorted(node.name for node in able if node.name not in partners(able))
    return (
        f"Connections of {_some(alone)} have no copy on another gateway: the remaining gateways are pairs."
        if alone
        else ""
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMED]) + (f" and {len(names) - _MAX_NAMED} more" if names[_MAX_NAMED:] else "")


def _redundant(offered: SourceIPClass, able: Sequence[NodeView], nodes: Sequence[NodeView]) -> Finding:
    if len(able) < 2 or offered.spec.announce == "routed":
        message = "Fewer than two nodes may carry its addresses." if len(able) < 2 else "Its routes are set by hand."
        return Finding("Redundant", "False", reasons.NO_GATEWAY, message)
    if len(voters(offered.spec, able, nodes)) < 3:
        return Finding("Redundant", "False", reasons.TOO_FEW_VOTERS, "There are fewer than three nodes to vote.")
    if message := _unshared(able):
        return Finding("Redundant", "False", reasons.NOT_SYNCED, message)
    return Finding("Redundant", "True", reasons.REDUNDANT, "The loss of a gateway is survived.")
