"""The types and classes that a node offers, selected from those that it discovered."""

from __future__ import annotations

from tarmac.decide.qosclasses.offers import FoundType, catalogue, published


def test_the_first_owner_of_a_type_has_it() -> None:
    found = [
        FoundType("blockio", "native", {"a": 3}),
        FoundType("blockio", "agent", {"b": None}),
        FoundType("rdt", "runtime", {"gold": None}, immutable=True),
    ]
    offered = catalogue(found, {})
    assert {name: each.owner for name, each in offered.types.items()} == {"blockio": "native", "rdt": "runtime"}
    assert published(offered.offered) == {
        "containerClassResources": [
            {"name": "blockio", "classes": [{"name": "a", "capacity": 3}]},
            {"name": "rdt", "immutable": True, "classes": [{"name": "gold"}]},
        ]
    }


def test_only_what_is_to_be_offered_and_no_more_than_there_is() -> None:
    found = [FoundType("blockio", "native", {"a": 3, "b": None, "c": None})]
    offered = catalogue(found, {"blockio": {"a": 5, "b": 2, "missing": 1}})
    assert offered.types["blockio"].classes == {"a": 3, "b": 2}
    assert catalogue(found, {"blockio": {"missing": 1}}).types == {}


def test_a_type_at_both_levels_is_offered_at_neither() -> None:
    found = [
        FoundType("x", "native", {"a": None}, "pod"),
        FoundType("x", "native", {"a": None}, "container"),
        FoundType("y", "native", {"a": None}, "pod"),
    ]
    offered = catalogue(found, {})
    assert offered.conflicts == {"x"}
    assert offered.pod_types == {"y"}
    assert published(offered.offered) == {"podClassResources": [{"name": "y", "classes": [{"name": "a"}]}]}
