"""What a Forwarder and a Gateway say of themselves: whether the newest rules are in force, and whether any cannot be.

Rules count as in force where they are applied as they were read: a node that has read newer ones than it has applied is
not done, and one whose rules are refused stays with those of before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.api.submariner.relays import Gateway, GatewayNodeStatus, RuleError
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding


def forwarder_findings(read: int, applied: int, errors: Sequence[RuleError]) -> list[Finding]:
    """`Programmed` and `Degraded` of a Forwarder, by the word of its node: generations, and what it could not apply."""
    return list(_findings(errors[0].message if errors else "", "" if applied == read else "its node"))


def gateway_findings(gateway: Gateway) -> list[Finding]:
    """The same of a Gateway, by the words of all nodes that may carry the address. One that says nothing is awaited."""
    said = {each.name: each for each in (gateway.status.nodes if gateway.status is not None else ())}
    names = [each.name for each in gateway.spec.candidates]
    failed = (f"{name}: {said[name].errors[0].message}" for name in names if name in said and said[name].errors)
    newest = gateway.metadata.generation
    behind = [name for name in names if not _has(said.get(name), newest)]
    if not names:
        return [
            Finding("Programmed", "False", reasons.NO_GATEWAY, "No node may carry the address."),
            Finding("Degraded", "True", reasons.NO_GATEWAY, "No node may carry the address."),
        ]
    return list(_findings(next(failed, ""), ", ".join(behind)))


def _has(said: GatewayNodeStatus | None, newest: int) -> bool:
    return said is not None and said.applied_generation == newest


def _findings(error: str, behind: str) -> Iterator[Finding]:
    if error:
        yield Finding("Programmed", "False", reasons.PROGRAMMING_FAILED, f"Rules could not be applied: {error}")
        yield Finding("Degraded", "True", reasons.PROGRAMMING_FAILED, error)
        return
    if behind:
        yield Finding("Programmed", "False", reasons.PROGRAMMING, f"The newest rules are not in force yet at {behind}.")
    else:
        yield Finding("Programmed", "True", reasons.RULES_IN_FORCE, "The newest rules are in force.")
    yield Finding("Degraded", "False", reasons.RULES_IN_FORCE, "No rule is refused.")
