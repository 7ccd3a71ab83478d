"""Cities of a placement and the Location of a city, for every way of choosing places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.workload import Placement
from tarmac.decide.placement import LocationView, by_city, cities_of, location_for, place_of
from tarmac.decide.reasons import CATALOGUE
from tarmac.decide.verdict import Verdict


def located(placement: Placement, city: str, places: list[LocationView]) -> Verdict[str]:
    return location_for(placement, city, by_city(places))


def placement(**fields: Any) -> Placement:
    """Return a placement as a manifest has it."""
    return msgspec.convert({"name": "p", "scaleSettings": {"minReplicas": 1}, **fields}, Placement)


def place(name: str, city: str, region: str = "US", ready: bool = True, cpu: int = 0) -> LocationView:
    """Return a Location of a city."""
    topology = {"topology.datum.net/city-code": city, "topology.datum.net/region": region}
    return LocationView(name, topology, ready, 0.0, {"cpu": cpu})


WORLD = [place("dfw", "DFW"), place("sea", "SEA"), place("lhr", "LHR", "EU"), place("fra", "FRA", "EU", ready=False)]

CASES = [
    ({"cityCodes": ["SEA", "DFW"]}, ("SEA", "DFW")),
    ({"selector": {"constraint": "region in ['EU']"}}, ("FRA", "LHR")),
    ({"selector": {"constraint": "cityCode == 'DFW' && topology['rack'] == ''"}}, ("DFW",)),
    ({"locations": [{"name": "lhr"}, {"name": "dfw"}]}, ("DFW", "LHR")),
    ({"locationSelector": {"matchLabels": {"topology.datum.net/region": "US"}}}, ("DFW", "SEA")),
    (
        {
            "locationSelector": {
                "matchExpressions": [
                    {"key": "topology.datum.net/city-code", "operator": "NotIn", "values": ["SEA", "LHR"]}
                ]
            }
        },
        ("DFW", "FRA"),
    ),
]


@pytest.mark.parametrize(("fields", "cities"), CASES)
def test_each_way_of_choosing_places(fields: dict[str, Any], cities: tuple[str, ...]) -> None:
    """City codes stay in the order written; the rest is alphabetical."""
    assert cities_of(placement(**fields), WORLD).value == cities


def test_a_named_city_is_meant_even_when_nothing_serves_it() -> None:
    """The deployment of such a city waits, and the placement has the reason."""
    verdict = cities_of(placement(cityCodes=["DFW", "NRT", "FRA"]), WORLD)
    assert verdict.value == ("DFW", "NRT", "FRA")
    assert [(refusal.reason, refusal.where) for refusal in verdict.refusals] == [
        ("NoCandidateLocations", "NRT"),
        ("NoCandidateLocations", "FRA"),
    ]
    assert verdict.refusals[0].change == "Create a Location with city code NRT."
    assert verdict.refusals[1].change == "Bring a node of fra back to ready."


def test_a_place_that_never_had_a_node_is_told_from_one_that_lost_them() -> None:
    """There is nothing to repair where no node was."""
    empty = replace(place("nrt", "NRT", ready=False), has_nodes=False)
    city, location = located(placement(cityCodes=["NRT"]), "NRT", [empty]).refusals
    assert city.message == "No Location in NRT is ready."
    assert location.message == "Location nrt has no node."
    assert city.change == "Add a node to Location nrt: one with the label topology.datum.net/location=nrt."
    both = [empty, place("nrt2", "NRT", ready=False)]
    assert located(placement(cityCodes=["NRT"]), "NRT", both).refusals[0].change == (
        "Bring a node of nrt2 back to ready."
    )


def test_a_selector_that_matches_nothing_says_what_exists() -> None:
    """NoMatchingLocations, with similar places."""
    verdict = cities_of(placement(selector={"constraint": "region == 'OC'"}), WORLD)
    assert verdict.value is None
    assert verdict.refusals[0].reason == "NoMatchingLocations"
    assert "dfw" in verdict.refusals[0].change


def test_a_constraint_that_cannot_be_read_says_so() -> None:
    """For example one that was stored where CEL was available."""
    verdict = cities_of(placement(selector={"constraint": "region =="}), WORLD)
    assert verdict.value is None
    assert "because its constraint cannot be read" in verdict.refusals[0].message


def test_a_place_that_the_constraint_has_no_answer_for_is_not_meant() -> None:
    """The others match; when none does, the verdict names the error and its place."""
    racks = {"topology.datum.net/city-code": "NRT", "racks": "4"}
    choice = placement(selector={"constraint": "int(topology['racks']) > 1"})
    assert cities_of(choice, [*WORLD, LocationView("nrt", racks)]).value == ("NRT",)
    verdict = cities_of(choice, WORLD)
    assert verdict.value is None
    assert "has no answer for dfw: cannot convert string to int" in verdict.refusals[0].message


def test_a_missing_location_is_named() -> None:
    """The existing Locations still serve."""
    verdict = cities_of(placement(locations=[{"name": "dfw"}, {"name": "gru"}]), WORLD)
    assert verdict.value == ("DFW",)
    assert [(refusal.reason, refusal.where) for refusal in verdict.refusals] == [("LocationNotFound", "gru")]


def test_without_locations_the_reason_is_that() -> None:
    """NoLocations, whatever the placement says."""
    chosen = placement(selector={"constraint": "true"})
    assert cities_of(chosen, []).refusals[0].reason == "NoLocations"
    assert located(placement(cityCodes=["DFW"]), "DFW", []).refusals[0].reason == "NoLocations"


def test_the_emptiest_ready_location_gets_the_deployment() -> None:
    """Most free capacity first, then the name; an unready one is skipped and mentioned."""
    here = [place("b", "DFW", cpu=9), place("a", "DFW", cpu=9), place("c", "DFW", ready=False, cpu=99)]
    verdict = located(placement(cityCodes=["DFW"]), "DFW", here)
    assert verdict.value == "a"
    assert located(placement(cityCodes=["DFW"]), "DFW", [*here, place("d", "DFW", cpu=10)]).value == "d"
    assert [(refusal.reason, refusal.where) for refusal in verdict.refusals] == [("LocationNotReady", "c")]


def test_a_placement_by_name_never_uses_another_location_of_the_city() -> None:
    """Only in a city to move to is every Location a candidate."""
    chosen = placement(locations=[{"name": "dfw-1"}], onCityLoss={"policy": "Move", "cities": ["SEA"]})
    assert located(chosen, "DFW", [place("dfw-2", "DFW")]).value is None
    assert located(chosen, "SEA", [place("sea", "SEA")]).value == "sea"


def test_a_location_object_is_ready_when_its_condition_says_so() -> None:
    """A missing condition means not ready."""
    from tarmac.api.networking.location import Location

    obj: dict[str, Any] = {
        "metadata": {"name": "dfw"},
        "spec": {
            "locationClassName": "self-managed",
            "topology": {"topology.datum.net/city-code": "DFW"},
            "provider": {"nodes": {}},
        },
    }
    assert not place_of(msgspec.convert(obj, Location)).ready
    obj["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert place_of(msgspec.convert(obj, Location)).ready
    assert place_of(msgspec.convert(obj, Location)).city == "DFW"


places = st.lists(
    st.builds(
        place,
        name=st.sampled_from("abcdefgh"),
        city=st.sampled_from(["DFW", "SEA", "LHR"]),
        region=st.sampled_from(["US", "EU"]),
        ready=st.booleans(),
        cpu=st.integers(0, 3),
    ),
    unique_by=lambda place: place.name,
)


@given(places, st.sampled_from([fields for fields, _ in CASES]), st.randoms(use_true_random=False))
def test_the_order_of_places_never_matters(world: list[LocationView], fields: dict[str, Any], shuffler: Any) -> None:
    """Both answers depend only on the set of places, a chosen Location is ready, and every refusal is explained."""
    chosen, shuffled = placement(**fields), list(world)
    shuffler.shuffle(shuffled)
    cities = cities_of(chosen, world)
    assert cities == cities_of(chosen, shuffled)
    for city in cities.value or ("DFW",):
        verdict = located(chosen, city, world)
        assert verdict == located(chosen, city, shuffled)
        assert all(place.ready and place.city == city for place in world if place.name == verdict.value)
        for refusal in (*verdict.refusals, *cities.refusals):
            assert refusal.reason in CATALOGUE
            assert refusal.change
    assert cities.decided or cities.refusals
