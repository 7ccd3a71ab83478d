"""The city of a node, from its labels."""

from __future__ import annotations

from tarmac.api.networking.cities import labels_at, location_of


def test_the_zone_of_a_node_is_its_city_wherever_in_the_city_it_is() -> None:
    found = [labels_at(location_of(name, "DFW", "")) for name in ("dfw", "dfw-2")]
    assert [each["topology.kubernetes.io/zone"] for each in found] == ["dfw", "dfw"]
    assert [each["topology.datum.net/location"] for each in found] == ["dfw", "dfw-2"]


def test_a_place_of_no_city_is_a_zone_by_itself() -> None:
    assert labels_at({"metadata": {"name": "lab"}})["topology.kubernetes.io/zone"] == "lab"
