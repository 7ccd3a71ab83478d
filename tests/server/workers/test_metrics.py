"""Metrics of several processes as one: counts are added, values that all share appear once."""

from __future__ import annotations

from tarmac.base.metrics import Family, Histogram
from tarmac.http.messages import Request
from tarmac.server.endpoints.health import HealthEndpoint
from tarmac.server.metrics import exposition
from tarmac.server.workers.workermetrics import encode_families, merged_families
from tests.support.exposition import series


def family(name: str, kind: str, *samples: tuple[list[tuple[str, str]], float]) -> Family:
    return name, kind, "x", ((name, labels, value) for labels, value in samples)


def lines(*processes: list[Family]) -> list[str]:
    text = exposition(
        merged_families({number: encode_families(each) for number, each in enumerate(processes)})
    ).decode()
    assert series(text)
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_counters_are_added_by_their_labels() -> None:
    zero = [family("requests_total", "counter", ([("code", "200")], 3), ([("code", "404")], 1))]
    one = [family("requests_total", "counter", ([("code", "200")], 4))]
    assert lines(zero, one) == ['requests_total{code="200"} 7', 'requests_total{code="404"} 1']


def test_histograms_are_added_bucket_by_bucket() -> None:
    def seconds(*observed: float) -> list[Family]:
        histogram = Histogram((1.0, 2.0))
        for each in observed:
            histogram.observe(each)
        return [("t", "histogram", "x", histogram.samples("t", [("verb", "GET")]))]

    found = lines(seconds(0.5, 1.5), seconds(0.5, 9.0))
    assert 't_bucket{verb="GET",le="1"} 2' in found
    assert 't_bucket{verb="GET",le="+Inf"} 4' in found
    assert 't_count{verb="GET"} 4' in found


def test_shared_gauges_are_merged_and_trouble_of_one_worker_counts() -> None:
    def of(objects: int, available: int) -> list[Family]:
        return [
            family("apiserver_storage_objects", "gauge", ([("resource", "pods")], objects)),
            family("tarmac_store_available", "gauge", ([], available)),
        ]

    assert lines(of(5, 1), of(6, 0)) == ['apiserver_storage_objects{resource="pods"} 6', "tarmac_store_available 0"]


def test_figures_of_a_process_have_its_number() -> None:
    each = [family("process_open_fds", "gauge", ([], 10))]
    again = [family("process_open_fds", "gauge", ([], 20))]
    assert lines(each, again) == ['process_open_fds{process="0"} 10', 'process_open_fds{process="1"} 20']


def test_a_family_that_one_process_has_is_told() -> None:
    assert lines([], [family("workqueue_depth", "gauge", ([("name", "a")], 2))]) == ['workqueue_depth{name="a"} 2']


def test_readiness_tells_own_trouble_from_that_of_others() -> None:
    trouble: dict[str, str | None] = {"store": None, "worker-1": None}
    health = HealthEndpoint("readyz", {"store": lambda: trouble["store"]}, {"worker-1": lambda: trouble["worker-1"]})

    def asked() -> int:
        answer = health.answer(Request("GET", "/readyz", "verbose", {}, b""), "")
        assert answer is not None
        assert b"worker-1" in answer.body
        return answer.status

    assert asked() == 200
    trouble["worker-1"] = "not ready for 10 s and more"
    assert asked() == 503
    trouble["store"] = "no connection to etcd"
    assert asked() == 500
