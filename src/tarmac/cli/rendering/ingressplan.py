"""A plan of public addresses as text: pool, addresses, gateways and endpoints, then the refusals."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.compute.explanations import AddressPlan
from tarmac.api.ingress.plans import IngressPlan
from tarmac.cli.rendering.text import paragraph, table

_REFUSED = ("REASON", "MESSAGE")


def ingress_plan_text(name: str, plan: IngressPlan) -> str:
    """Return the output of `tarmac plan` for one object."""
    parts = [paragraph(_sentence(name, plan))]
    if plan.causes:
        parts.append(table(("FIELD", "MESSAGE"), [(cause.field, cause.message) for cause in plan.causes]))
    more = [("available", str(plan.available))] if plan.available else []
    more += [("holders", ", ".join(plan.holders))] if plan.holders else []
    return "\n\n".join([*parts, *address_parts(plan, more)]) + "\n"


def address_parts(plan: AddressPlan, more: list[tuple[str, str]] | None = None) -> Iterator[str]:
    """Yield the table of an address plan, its refusals, and the smallest changes."""
    listed = {
        "pool": plan.pools,
        "address": plan.addresses,
        "gateways": plan.gateways,
        "endpoints": plan.endpoints,
    }
    rows = [*((what, ", ".join(values)) for what, values in listed.items() if values), *(more or ())]
    if rows:
        yield table(("PART", "VALUE"), rows)
    if plan.refused:
        yield table(_REFUSED, [(each.reason, each.message) for each in plan.refused])
        for change in dict.fromkeys(each.change for each in plan.refused if each.change):
            yield paragraph(f"Smallest change: {change}")


def _sentence(name: str, plan: IngressPlan) -> str:
    if not plan.accepted:
        return f"{name} would be refused: {len(plan.causes)} {'cause' if len(plan.causes) == 1 else 'causes'}."
    if name.startswith("Service ") and plan.addresses:
        reached = "" if plan.runs else ", and would not be reached"
        return f"{name} would hold {' and '.join(plan.addresses)}{reached}."
    return f"{name} would work." if plan.runs else f"{name} would not work."
