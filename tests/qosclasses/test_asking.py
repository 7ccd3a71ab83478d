"""The class of a container: its field, its annotation, the pod's field, the annotation for all; in this order."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.kubernetes.core.pods.podclasses import (
    annotation_giving,
    asks_for_classes,
    class_annotations,
    container_classes,
    named_classes,
    pod_classes,
    stored_type,
)
from tests.qosclasses.planet import BLOCKIO, RDT, Json, container, pod

SAYS: dict[str, Json] = {
    "field": {"field": "a"},
    "annotation": {f"{BLOCKIO}/container.main": "b"},
    "pod": {"pod": "c"},
    "default": {f"{BLOCKIO}/default": "d"},
}


def saying(*places: str) -> Json:
    own = {"classes": {"blockio": "a"}} if "field" in places else {}
    annotations = {
        key: value for place in ("annotation", "default") if place in places for key, value in SAYS[place].items()
    }
    spec: dict[str, Any] = {"resources": {"classes": {"blockio": "c"}}} if "pod" in places else {}
    return pod("p", container("main", **own), annotations=annotations, **spec)


@pytest.mark.parametrize(
    ("places", "gets"),
    [
        (("field", "annotation", "pod", "default"), "a"),
        (("annotation", "pod", "default"), "b"),
        (("pod", "default"), "c"),
        (("default",), "d"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else value,
)
def test_the_first_place_that_says_something_counts(places: tuple[str, ...], gets: str) -> None:
    assert container_classes(saying(*places), "main") == {"blockio": gets}


def test_a_type_is_looked_for_by_itself() -> None:
    asked = pod(
        "p",
        container("main", classes={"blockio": "slow"}),
        annotations={f"{RDT}/default": "gold", f"{BLOCKIO}/default": "fast"},
        resources={"classes": {"example.com/cache": "big"}},
    )
    assert container_classes(asked, "main") == {"blockio": "slow", "rdt": "gold", "example.com/cache": "big"}


def test_pod_level_classes_are_no_default_of_containers() -> None:
    asked = pod("p", resources={"classes": {"cache": "big", "blockio": "slow"}})
    assert pod_classes(asked, {"cache"}) == {"cache": "big"}
    assert container_classes(asked, "main", {"cache"}) == {"blockio": "slow"}
    assert pod_classes(asked, ()) == {}
    assert container_classes(asked, "main") == {"cache": "big", "blockio": "slow"}


def test_an_init_container_is_asked_for_as_any_other() -> None:
    asked = pod("p", initContainers=[container("first")], annotations={f"{BLOCKIO}/container.first": "fast"})
    assert container_classes(asked, "first") == {"blockio": "fast"}
    assert container_classes(asked, "main") == {}


def test_an_ephemeral_container_gets_defaults_only() -> None:
    annotations = {f"{BLOCKIO}/default": "slow", f"{RDT}/container.debug": "gold"}
    asked = pod("p", annotations=annotations, ephemeralContainers=[container("debug")])
    assert container_classes(asked, "debug") == {"blockio": "slow"}


@pytest.mark.parametrize(
    ("asked", "asks"),
    [
        (pod(), False),
        (pod(annotations={"a": "b", "blockio.resources.beta.kubernetes.io/pod": "slow"}), False),
        (pod(annotations={f"{BLOCKIO}/default": "slow"}), True),
        (pod(annotations={f"{RDT}/anything": ""}), True),
        (pod("p", container("main", classes={"x": "y"})), True),
        (pod(initContainers=[container("i", classes={"x": "y"})]), True),
        (pod(resources={"classes": {"x": "y"}}), True),
        (pod(resources={"requests": {"cpu": "1"}}), False),
    ],
)
def test_most_pods_ask_for_nothing(asked: Json, asks: bool) -> None:
    assert asks_for_classes(asked) is asks


def test_whatever_is_named_anywhere_is_named() -> None:
    assert sorted(named_classes(saying("field", "annotation", "pod", "default"))) == [
        ("blockio", name) for name in ("a", "b", "c", "d")
    ]


def test_long_names_of_types_are_short_ones() -> None:
    names = ["k8s.io/rdt", "k8s.io/blockio", "k8s.io/other", "rdt"]
    assert [stored_type(name) for name in names] == ["rdt", "blockio", "k8s.io/other", "rdt"]


def test_the_two_families_are_told_from_other_keys() -> None:
    keys = [
        f"{RDT}/default",
        f"{BLOCKIO}/x",
        "net.resources.alpha.kubernetes.io/default",
        "rdt.resources.beta.kubernetes.io/pod",
    ]
    assert [*class_annotations(dict.fromkeys(keys, "v"))] == keys[:2]


@pytest.mark.parametrize(
    ("places", "key"),
    [
        (("field", "annotation", "default"), None),
        (("annotation", "default"), f"{BLOCKIO}/container.main"),
        (("default",), f"{BLOCKIO}/default"),
        (("pod", "default"), None),
        ((), None),
    ],
)
def test_class_annotations_by_precedence(places: tuple[str, ...], key: str | None) -> None:
    asked = saying(*places)
    assert annotation_giving(asked, asked["spec"]["containers"][0], "blockio") == key
