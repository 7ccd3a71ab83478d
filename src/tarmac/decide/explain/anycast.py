"""Explains the address of a Workload with `enable-anycast`: the cities that announce it, and why the rest do not."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.compute.explanations import ExplanationLine
from tarmac.api.compute.names import ANNOTATION_ANYCAST
from tarmac.api.compute.workload import AnycastCity, Workload
from tarmac.decide import reasons
from tarmac.decide.explain.answer import refusal_line, yes
from tarmac.decide.verdict import Refusal

_RULE = "anycast"


def anycast_lines(workload: Workload) -> Iterator[ExplanationLine]:
    """Yield lines from the status; none without the annotation, or without a controller for addresses."""
    status = workload.status
    if status is None or workload.metadata.annotations.get(ANNOTATION_ANYCAST) != "true":
        return
    addresses = " and ".join(status.anycast_addresses)
    ready = next((each for each in status.conditions if each.type == "AnycastReady"), None)
    if ready is not None and ready.status != "True":
        yield refusal_line(Refusal(ready.reason, ready.message, rule=_RULE))
    for each in status.anycast:
        yield _city_line(each, addresses)


def _city_line(city: AnycastCity, addresses: str) -> ExplanationLine:
    if city.announced:
        since = f" since {city.since}" if city.since else ""
        return yes(reasons.ANNOUNCED, f"It announces {addresses}{since}", _RULE, city.city)
    reason = city.reason if city.reason in reasons.CATALOGUE else reasons.NOT_ANNOUNCED
    idle = "It has no ready instance, so it does not announce the address."
    text = idle if reason == reasons.NO_READY_INSTANCE else reasons.reason(reason).text
    return refusal_line(Refusal(reason, text, rule=_RULE), city.city)
