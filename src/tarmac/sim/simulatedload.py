"""Simulated load: metrics for autoscaling and for `kubectl top`.

Each Location has a load in requests per second, set by scenarios and simulated users. External metrics report that load
as a Prometheus at the Location would: none from a Location that is cut off. Each pod uses the amounts of its
annotations `sim.tarmac/cpu` and `sim.tarmac/memory`, or `IDLE`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.cooperative import CooperativeRunner, CooperativeWork
from tarmac.base.quantity import Quantity
from tarmac.base.selectors import LabelMatcher
from tarmac.controllers.metricsources import ExternalQuery, InstanceUsage, NoMetric
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.pod import SimulatedPod

IDLE = {"cpu": "10m", "memory": "64Mi"}
_WINDOW = "15s"


class SimulatedMetrics:
    """Answers the autoscaler (`external`, `usage`) and the server's metrics API (`nodes`, `pods`)."""

    def __init__(self, fleet: SimulatedNodes, clock: Clock) -> None:
        self.load: dict[str, float] = {}  # by Location
        self._fleet = fleet
        self._clock = clock
        self._pieces = CooperativeRunner(clock)

    async def external(self, question: ExternalQuery) -> Sequence[int]:
        """Return the load of the Location in thousandths, for any query. Raises NoMetric."""
        if not self._heard(question.location):
            raise NoMetric(f"nothing is heard from {question.location}")
        return [round(self.load.get(question.location, 0.0) * 1000)]

    async def usage(self, namespace: str, labels: str) -> Mapping[str, InstanceUsage]:
        """Return the usage of pods on nodes that can report."""
        selector, now = LabelMatcher.parse(labels), self._clock.now()
        return {
            pod.name: InstanceUsage({name: amount.milli() for name, amount in _used(pod).items()}, now)
            for pod in self._measured()
            if pod.namespace == namespace and selector.matches(pod.labels)
        }

    async def close(self) -> None:
        """Do nothing: no connection is held open."""

    def nodes(self) -> Sequence[JsonObject] | Awaitable[Sequence[JsonObject]]:
        """Return NodeMetrics objects; an awaitable if that takes several turns of the loop."""
        return self._pieces.run(self._of_nodes(), lambda shown: shown)

    def pods(self) -> Sequence[JsonObject] | Awaitable[Sequence[JsonObject]]:
        """Return PodMetrics objects; an awaitable if that takes several turns of the loop."""
        return self._pieces.run(self._of_pods(), lambda shown: shown)

    def _of_nodes(self) -> CooperativeWork[list[JsonObject]]:
        total = {node.name: _amounts(IDLE) for node in self._fleet.nodes.values() if node.hears}
        for pod in list(self._measured()):
            # A node that stopped between two slices is reported with the pods counted so far.
            if (node := total.get(pod.node)) is not None:
                for name, amount in _used(pod).items():
                    node[name] += amount
            yield
        return [{"metadata": {"name": name}, **self._when(), "usage": _text(used)} for name, used in total.items()]

    def _of_pods(self) -> CooperativeWork[list[JsonObject]]:
        shown: list[JsonObject] = []
        for pod in list(self._measured()):
            shown.append(self._of_pod(pod))
            yield
        return shown

    def _of_pod(self, pod: SimulatedPod) -> JsonObject:
        """Return the PodMetrics of a pod; all usage is attributed to its first container."""
        none = _amounts({"cpu": "0", "memory": "0"})
        return {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": dict(pod.labels)},
            **self._when(),
            "containers": [
                {"name": name, "usage": _text(_used(pod) if index == 0 else none)}
                for index, (name, _) in enumerate(pod.containers)
            ],
        }

    def _measured(self) -> Iterator[SimulatedPod]:
        return (pod for pod in self._fleet.pods() if pod.runs and self._fleet.nodes[pod.node].hears)

    def _heard(self, location: str) -> bool:
        return any(node.hears for node in self._fleet.nodes.values() if node.place.name == location)

    def _when(self) -> JsonObject:
        return {"timestamp": rfc3339(self._clock.now()), "window": _WINDOW}


def _used(pod: SimulatedPod) -> dict[str, Quantity]:
    used = _amounts(IDLE)
    for name in used:
        stated = pod.annotations.get(f"sim.tarmac/{name}")
        if stated:
            with suppress(ValueError):
                used[name] = Quantity.parse(stated)
    return used


def _amounts(texts: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in texts.items()}


def _text(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
