"""A plan as text: the changes in each city, then the refusals with their reasons."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.compute.explanations import CityPlan, Ending, Plan
from tarmac.cli.rendering.ingressplan import address_parts
from tarmac.cli.rendering.text import paragraph, table

_HEADERS = ("CITY", "CREATE", "REPLACE", "DELETE", "KEEP", "MOVED", "REFUSED")
_ENDS = ("CITY", "NODE", "ENDS TO MAKE ROOM")
_REFUSED = ("CITY", "REASON", "MESSAGE")


def plan_text(name: str, plan: Plan) -> str:
    """Return the output of `tarmac plan` for one Workload."""
    parts = [paragraph(_sentence(name, plan))]
    if plan.causes:
        parts.append(table(("FIELD", "MESSAGE"), [(cause.field, cause.message) for cause in plan.causes]))
    cities = [city for city in plan.cities if city.city]
    if cities:
        parts.append(_table(cities))
    endings = [(city.city, each.node, _ending(each)) for city in plan.cities for each in city.endings]
    if endings:
        parts.append(table(_ENDS, endings))
    refused = [row for city in plan.cities for row in _refusals(city)]
    if refused:
        parts.append(table(_REFUSED, refused))
    changes = list(dict.fromkeys(each.change for city in plan.cities for each in city.refused if each.change))
    if changes:
        parts.append("\n".join(paragraph(f"Smallest change: {change}") for change in changes))
    if plan.anycast is not None:
        parts += address_parts(plan.anycast)
    return "\n\n".join(parts) + "\n"


def _ending(ending: Ending) -> str:
    """Return the pods that would be evicted, and violated budgets."""
    others = [f"{ending.others} of other namespaces"] if ending.others else []
    broken = f" (against {ending.violations} times a disruption budget)" if ending.violations else ""
    return ", ".join([*ending.pods, *others]) + broken


def _sentence(name: str, plan: Plan) -> str:
    if not plan.accepted:
        return f"Workload {name} would be refused: {len(plan.causes)} {_plural(len(plan.causes), 'cause')}."
    counted = ", ".join(_counts(plan))
    if not any(city.refused for city in plan.cities):
        reached = "" if plan.runs else ", and its anycast address would not be announced"
        return f"Workload {name} would run{reached}: {counted or 'nothing to do'}."
    cities = ", ".join(dict.fromkeys(city.city for city in plan.cities if city.refused and city.city))
    where = f" ({cities})" if cities else ""
    return f"Some instances of Workload {name} would not run{where}{f': {counted}' if counted else ''}."


def _counts(plan: Plan) -> Iterator[str]:
    for verb in ("create", "replace", "delete", "stop", "start"):
        count = sum(getattr(city, verb) for city in plan.cities)
        if count:
            yield f"{verb} {count}"
    disks = sum(city.boot_disks for city in plan.cities)
    if disks:
        yield f"make {disks} boot {_plural(disks, 'disk')} again (another image)"
    ended = sum(len(ending.pods) + ending.others for city in plan.cities for ending in city.endings)
    if ended:
        yield f"end {ended} less important {_plural(ended, 'pod')}"


def _table(cities: list[CityPlan]) -> str:
    """Return the table by city, with the wave of each city if there are several."""
    rows = [_row(city) for city in cities]
    if not any(city.wave for city in cities):
        return table(_HEADERS, rows)
    waves = [str(city.wave) if city.wave else "" for city in cities]
    return table((*_HEADERS, "WAVE"), [(*row, wave) for row, wave in zip(rows, waves, strict=True)])


def _refusals(city: CityPlan) -> Iterator[tuple[str, str, str]]:
    """Yield one row for each reason; the city is named in the first."""
    for number, each in enumerate(city.refused):
        yield ("" if number else city.city, each.reason, each.message)


def _row(city: CityPlan) -> tuple[str, ...]:
    counts = (city.create, city.replace, city.delete, city.keep)
    moved = str(city.moved) if city.moved else ""
    refused = sum(each.instances for each in city.refused)
    return (
        city.city,
        *(str(count) for count in counts),
        moved,
        str(refused) if refused else "",
    )


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
