"""Probes that fail on request: an annotation names their kind, since there is no process to probe.

A failing readiness probe keeps its container unready. A failing liveness or startup probe ends its container after as
many periods as its failure threshold, and the container starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from tarmac.api.partial import Partial
from tarmac.sim.nodes.settings import FAILING_PROBES

Kind = Literal["startup", "liveness", "readiness"]
OUTPUT = "the annotation sim.tarmac/failing-probes asks for it"


class _Probe(Partial):
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    failure_threshold: int | None = None


class Probes(Partial):
    """The probes of a container; subclasses add the fields they need."""

    name: str
    startup_probe: _Probe | None = None
    liveness_probe: _Probe | None = None
    readiness_probe: _Probe | None = None


class FailingProbe(NamedTuple):
    """A failing probe. Times are in seconds."""

    container: str
    kind: Kind
    delay: float
    period: float
    threshold: int

    @property
    def keeps_unready(self) -> bool:
        """True if its container is unready while it fails."""
        return self.kind != "liveness"

    @property
    def ends(self) -> bool:
        """True if it ends its container."""
        return self.kind != "readiness"


def failing_probes(annotations: Mapping[str, str], containers: Iterable[Probes]) -> tuple[FailingProbe, ...]:
    """Return the containers' probes of the kinds that the pod's annotation names."""
    named = annotations.get(FAILING_PROBES)
    if not named:
        return ()
    wanted = [kind for kind in get_args(Kind) if kind in {each.strip() for each in named.split(",")}]
    return tuple(
        FailingProbe(
            each.name, kind, probe.initial_delay_seconds or 0, probe.period_seconds or 10, probe.failure_threshold or 3
        )
        for each in containers
        for kind in wanted
        if (probe := _of_kind(each, kind)) is not None
    )


def _of_kind(container: Probes, kind: Kind) -> _Probe | None:
    if kind == "startup":
        return container.startup_probe
    return container.liveness_probe if kind == "liveness" else container.readiness_probe
