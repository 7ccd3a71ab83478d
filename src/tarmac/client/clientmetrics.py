"""Metrics of queues, informers, controllers and leadership, under the names operators know.

The parts count in plain attributes, which costs next to nothing; `ClientMetrics.families` adds names and labels at
scrape time, in the shape that the server's metrics page takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tarmac.base.metrics import Family, Histogram, Sample

if TYPE_CHECKING:
    from tarmac.client.controller import Controller
    from tarmac.client.informer import Informers
    from tarmac.client.leader import Elector
    from tarmac.client.workqueue import WorkQueue


class ClientMetrics:
    """The metrics of all registered parts, as families."""

    def __init__(self) -> None:
        self.controllers: list[Controller] = []
        self.informers: list[Informers] = []
        self.electors: list[Elector] = []
        self.others: list[Callable[[], Iterable[Family]]] = []  # additional metrics of single controllers

    def families(self) -> Iterator[Family]:
        """Yield the families, at each scrape."""
        yield from _queues([controller.queue for controller in self.controllers])
        yield from _informers(self.informers)
        name = "controller_reconcile_total"
        samples: list[Sample] = [
            (name, [("controller", controller.name), ("result", result)], count)
            for controller in self.controllers
            for result, count in controller.results.items()
        ]
        yield name, "counter", "Reconciles by outcome.", samples
        name = "leader_election_master_status"
        leading: list[Sample] = [(name, [("name", elector.name)], int(elector.leading)) for elector in self.electors]
        yield name, "gauge", "1 while this process leads.", leading
        for families in self.others:
            yield from families()


def _queues(queues: list[WorkQueue]) -> Iterator[Family]:
    depth = {queue.name: len(queue) for queue in queues}
    yield _family("workqueue_depth", "gauge", "Keys ready to be worked on.", "name", depth)
    adds = {queue.name: queue.adds for queue in queues}
    yield _family("workqueue_adds_total", "counter", "Keys added.", "name", adds)
    retries = {queue.name: queue.retries for queue in queues}
    yield _family("workqueue_retries_total", "counter", "Keys added again after a failure.", "name", retries)
    waited = {queue.name: queue.waited for queue in queues}
    yield _durations("workqueue_queue_duration_seconds", "Seconds from added to taken.", waited)
    worked = {queue.name: queue.worked for queue in queues}
    yield _durations("workqueue_work_duration_seconds", "Seconds from taken to done.", worked)


def _informers(groups: list[Informers]) -> Iterator[Family]:
    objects: Counter[str] = Counter()
    lists: Counter[str] = Counter()
    resumes: Counter[str] = Counter()
    events: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for informer in (informer for group in groups for informer in group):
        resource, stats = informer.target.plural, informer.stats
        objects[resource] += len(informer.cache)
        lists[resource] += stats.lists
        resumes[resource] += stats.resumes
        events[resource] += stats.events
        errors[resource] += stats.errors
    yield _family("informer_objects", "gauge", "Objects held.", "resource", objects)
    yield _family("reflector_lists_total", "counter", "Full listings.", "resource", lists)
    yield _family("reflector_resumes_total", "counter", "Watches continued from a version.", "resource", resumes)
    yield _family("reflector_events_total", "counter", "Changes taken.", "resource", events)
    yield _family("reflector_errors_total", "counter", "Connections that failed.", "resource", errors)


def _family(name: str, type: str, description: str, label: str, values: dict[str, int]) -> Family:
    return name, type, description, [(name, [(label, key)], value) for key, value in values.items()]


def _durations(name: str, description: str, histograms: dict[str, Histogram]) -> Family:
    samples: list[Sample] = []
    for key, histogram in histograms.items():
        samples += histogram.samples(name, [("name", key)])
    return name, "histogram", description, samples
