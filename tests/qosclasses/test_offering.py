"""The classes that a node offers: in its status, else in its annotation."""

from __future__ import annotations

import json

import pytest

from tarmac.api.kubernetes.core.nodeclasses import (
    NOTHING,
    RESOURCES_ANNOTATION,
    OfferedClasses,
    OfferedType,
    node_resources,
    offered_classes,
)
from tests.qosclasses.planet import Json

LISTS: Json = {
    "containerClassResources": [{"name": "blockio", "classes": [{"name": "slow", "capacity": 4}, {"name": "fast"}]}],
    "podClassResources": [{"name": "cache", "immutable": True, "classes": [{"name": "big"}]}],
}
OFFERED = OfferedClasses(
    pod={"cache": OfferedType(True, {"big": None})},
    container={"blockio": OfferedType(False, {"slow": 4, "fast": None})},
)


def node(status: Json, annotation: str | None = None) -> Json:
    return {
        "metadata": {"name": "n", "annotations": {RESOURCES_ANNOTATION: annotation} if annotation else {}},
        "status": status,
    }


def test_the_status_says_it() -> None:
    assert offered_classes(node(LISTS)) == OFFERED
    assert OFFERED.find("cache") == OFFERED.pod["cache"]
    assert OFFERED.find("rdt") is None


def test_where_the_server_drops_the_fields_the_annotation_says_it() -> None:
    reserved = [{"resource": "cpu", "for": "system", "amount": "1", "source": "flag"}]
    told = node({}, json.dumps({**LISTS, "reservations": reserved, "other": 1}))
    assert offered_classes(told) == OFFERED
    assert node_resources(told) == {**LISTS, "reservations": reserved}


def test_the_field_comes_before_the_annotation() -> None:
    other = json.dumps({"containerClassResources": [{"name": "rdt", "classes": [{"name": "gold"}]}]})
    assert offered_classes(node(LISTS, other)) == OFFERED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "7",
        "{}",
        '{"containerClassResources": 7}',
        '{"podClassResources":[{"classes":[]}]}',
        "[" * 9999,
    ],
)
def test_an_annotation_that_makes_no_sense_offers_nothing(text: str) -> None:
    assert offered_classes(node({}, text)) == NOTHING


def test_a_node_that_says_nothing_offers_nothing() -> None:
    assert offered_classes({"metadata": {"name": "n"}}) is NOTHING
