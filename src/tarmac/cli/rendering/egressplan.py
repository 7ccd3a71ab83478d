"""A plan of an ExternalService or a SourceIPClaim as text: the external addresses, then the refusals."""

from __future__ import annotations

from tarmac.api.compute.explanations import Refused
from tarmac.api.egress.plans import ExternalPlan, SourcePlan
from tarmac.cli.rendering.text import paragraph, table

_SOURCES = ("SERVICE", "SEEN AS", "PODS", "GATEWAY", "INBOUND")
_REFUSED = ("SERVICE", "REASON", "MESSAGE")


def external_plan_text(name: str, plan: ExternalPlan) -> str:
    """Return the output of `tarmac plan` for one object."""
    parts = [paragraph(_sentence(name, plan))]
    if plan.causes:
        parts.append(table(("FIELD", "MESSAGE"), [(cause.field, cause.message) for cause in plan.causes]))
    if plan.sources:
        parts.append(table(_SOURCES, [_row(source) for source in plan.sources]))
    refused = [("", each) for each in plan.refused]
    refused += [(source.service, each) for source in plan.sources for each in source.refused]
    if refused:
        parts.append(table(_REFUSED, [(whose, each.reason, each.message) for whose, each in refused]))
    parts += [paragraph(f"Smallest change: {change}") for change in _changes([each for _, each in refused])]
    return "\n\n".join(parts) + "\n"


def _changes(refused: list[Refused]) -> list[str]:
    return list(dict.fromkeys(each.change for each in refused if each.change))


def _sentence(name: str, plan: ExternalPlan) -> str:
    if not plan.accepted:
        return f"{name} would be refused: {len(plan.causes)} {'cause' if len(plan.causes) == 1 else 'causes'}."
    if plan.addresses:
        return f"{name} would hold {', '.join(plan.addresses)}."
    if plan.runs:
        return f"{name} would work."
    return f"{name} would not all work."


def _row(source: SourcePlan) -> tuple[str, ...]:
    return source.service, source.source_ip, ", ".join(source.cities), source.gateway, ", ".join(source.inbound)
