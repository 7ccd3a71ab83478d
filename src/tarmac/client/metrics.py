"""Numbers about queues, informers, controllers and leadership, under the names operators know.

The parts count in plain attributes, which costs next to nothing; `ClientMetrics` turns them into Prometheus families
when somebody scrapes. Register one with the process's registry and hand it to what should be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

if TYPE_CHECKING:
    from tarmac.client.controller import Controller
    from tarmac.client.informer import Informers
    from tarmac.client.leader import Elector
    from tarmac.client.workqueue import WorkQueue


class ClientMetrics:
    """A Prometheus collector over everything that was added to it."""

    def __init__(self) -> None:
        self.controllers: list[Controller] = []
        self.informers: list[Informers] = []
        self.electors: list[Elector] = []

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        yield from _queue_metrics([controller.queue for controller in self.controllers])
        yield from _informer_metrics(self.informers)
        results = CounterMetricFamily("controller_reconcile", "Reconciles by outcome", labels=["controller", "result"])
        for controller in self.controllers:
            for result, count in controller.results.items():
                results.add_metric([controller.name, result], count)
        yield results
        status = GaugeMetricFamily("leader_election_master_status", "1 while this process leads", labels=["name"])
        for elector in self.electors:
            status.add_metric([elector.name], float(elector.leading))
        yield status


def _queue_metrics(queues: Iterable[WorkQueue]) -> Iterator[Metric]:
    label = ["name"]
    depth = GaugeMetricFamily("workqueue_depth", "Keys ready to be worked on", labels=label)
    adds = CounterMetricFamily("workqueue_adds", "Keys added", labels=label)
    retries = CounterMetricFamily("workqueue_retries", "Keys added again after a failure", labels=label)
    waited = HistogramMetricFamily("workqueue_queue_duration_seconds", "From added to taken", labels=label)
    worked = HistogramMetricFamily("workqueue_work_duration_seconds", "From taken to done", labels=label)
    for queue in queues:
        depth.add_metric([queue.name], len(queue))
        adds.add_metric([queue.name], queue.adds)
        retries.add_metric([queue.name], queue.retries)
        waited.add_metric([queue.name], queue.waited.buckets(), queue.waited.total)
        worked.add_metric([queue.name], queue.worked.buckets(), queue.worked.total)
    yield from (depth, adds, retries, waited, worked)


def _informer_metrics(groups: Iterable[Informers]) -> Iterator[Metric]:
    label = ["resource"]
    families: dict[str, CounterMetricFamily] = {
        "lists": CounterMetricFamily("reflector_lists", "Full listings", labels=label),
        "resumes": CounterMetricFamily("reflector_watch_resumes", "Watches continued from a version", labels=label),
        "events": CounterMetricFamily("reflector_events", "Changes taken", labels=label),
        "repeats": CounterMetricFamily("reflector_repeated_events", "Changes skipped as seen before", labels=label),
        "errors": CounterMetricFamily("reflector_errors", "Connections that failed", labels=label),
    }
    objects = GaugeMetricFamily("informer_objects", "Objects held", labels=label)
    totals: dict[str, dict[str, float]] = {}
    for informer in (informer for group in groups for informer in group):
        counts = totals.setdefault(informer.target.plural, dict.fromkeys((*families, "objects"), 0.0))
        counts["objects"] += len(informer.cache)
        for name in families:
            counts[name] += _count(informer.stats, name)
    for resource, counts in totals.items():
        objects.add_metric([resource], counts.pop("objects"))
        for name, value in counts.items():
            families[name].add_metric([resource], value)
    yield from families.values()
    yield objects


def _count(stats: Any, name: str) -> float:
    return float(getattr(stats, name))
