"""Conditions of Forwarders and Gateways: `Programmed` (the newest rules are in force) and `Degraded` (rules failed).

Rules are in force if the applied generation equals the newest one. A node that fails to apply new rules keeps the
previous ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.api.egress.forwarding import Gateway, GatewayNodeStatus, RuleError
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding


def forwarder_findings(read: int, applied: int, errors: Sequence[RuleError]) -> list[Finding]:
    """Return `Programmed` and `Degraded` of a Forwarder from the generations and errors that its node reports."""
    return list(_findings(errors[0].short_message if errors else "", "" if applied == read else "its node"))


def gateway_findings(gateway: Gateway) -> list[Finding]:
    """Return the same for a Gateway from the reports of all candidates. A silent candidate counts as behind."""
    reports = {each.name: each for each in (gateway.status.nodes if gateway.status is not None else ())}
    names = [each.name for each in gateway.spec.candidates]
    failed = (
        f"{name}: {reports[name].errors[0].short_message}" for name in names if name in reports and reports[name].errors
    )
    newest = gateway.metadata.generation
    behind = [name for name in names if not _has(reports.get(name), newest)]
    if not names:
        return [
            Finding("Programmed", "False", reasons.NO_GATEWAY, "No node may carry the address."),
            Finding("Degraded", "True", reasons.NO_GATEWAY, "No node may carry the address."),
        ]
    return list(_findings(next(failed, ""), ", ".join(behind)))


def _has(report: GatewayNodeStatus | None, newest: int) -> bool:
    return report is not None and report.applied_generation == newest


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
