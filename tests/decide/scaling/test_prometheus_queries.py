"""Prometheus queries of external metrics."""

from __future__ import annotations

import pytest

from tarmac.api.compute.scaling import MetricIdentifier
from tarmac.api.shared import LabelSelector, LabelSelectorRequirement
from tarmac.decide.scaling.queries import prometheus_query


def metric(name: str, labels: dict[str, str] | None = None, *expressions: LabelSelectorRequirement) -> MetricIdentifier:
    return MetricIdentifier(name, LabelSelector(labels or {}, list(expressions)))


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        (MetricIdentifier("up"), "up"),
        (metric("job:rate:sum", {"city": "{{ context.locality.cityCode }}"}), 'job:rate:sum{city="DFW"}'),
        (metric("up", {"city": "x-{{context.locality.cityCode}}-y"}), 'up{city="x-DFW-y"}'),
        (metric("http.requests", {"a": "b"}), '{__name__="http.requests",a="b"}'),
        (metric("up", {"path": 'a"b\\c'}), 'up{path="a\\"b\\\\c"}'),
        (metric("up", None, LabelSelectorRequirement("a", "In", ["x.y", "z"])), 'up{a=~"x\\\\.y|z"}'),
        (metric("up", None, LabelSelectorRequirement("a", "NotIn", ["x"])), 'up{a!~"x"}'),
        (metric("up", None, LabelSelectorRequirement("a", "Exists")), 'up{a!=""}'),
        (metric("up", None, LabelSelectorRequirement("a", "DoesNotExist")), 'up{a=""}'),
    ],
)
def test_names_labels_and_the_city_become_a_query(asked: MetricIdentifier, query: str) -> None:
    assert prometheus_query(asked, "DFW") == query
