"""Derived names of children: valid, bounded, and different for different inputs."""

from __future__ import annotations

from itertools import combinations

from tarmac.api.compute.names import binding_name, claim_name, deployment_name, identity_of, instance_name
from tarmac.api.networking.cities import node_labels
from tarmac.api.networking.names import context_name, pods_network, subnet_name
from tarmac.base.names import dns1123_label, dns1123_subdomain

MAX_NAME = "a" * 63


def test_a_deployment_has_a_name_of_its_own_for_each_workload_placement_and_city() -> None:
    names = [
        deployment_name("web", "us", "DFW"),
        deployment_name("web", "us", "SEA"),
        deployment_name("web", "eu", "DFW"),
        deployment_name("web", "us", "DFW", "SEA"),
        deployment_name("web", "us", "DFW", "LHR"),
        deployment_name("web-us", "", "DFW"),
    ]
    assert all(one != other for one, other in combinations(names, 2))
    assert names[0] == deployment_name("web", "us", "dfw"), "for any spelling of the city"
    assert names[0].startswith("web-dfw-")


def test_everything_below_the_longest_name_is_a_label() -> None:
    deployment = deployment_name(MAX_NAME, MAX_NAME, "DFW", "SEA")
    for name in (deployment, instance_name(deployment, 999), binding_name(deployment, 9)):
        assert dns1123_label(name) == [], name
    claim = claim_name(instance_name(deployment, 999), MAX_NAME)
    assert dns1123_subdomain(claim) == []


def test_a_context_is_bounded_and_cannot_be_mistaken_for_another() -> None:
    assert context_name("a-b", "c") != context_name("a", "b-c")
    assert context_name(MAX_NAME + "x", "c") != context_name(MAX_NAME + "y", "c")
    longest = subnet_name(context_name("a." * 126, "b." * 126), "IPv6")
    assert dns1123_subdomain(longest) == []
    assert longest.endswith("-ipv6")


def test_plain_pods_are_on_the_network_of_their_namespace_and_those_of_the_system_on_one_of_their_own() -> None:
    assert pods_network("shop") == "shop/default"
    assert pods_network("kube-system") == pods_network("kube-public")
    assert pods_network("kube-system") != "kube-system/default"


def test_children_inherit_the_labels_that_say_whose_they_are_and_no_others() -> None:
    whose = {"compute.datumapis.com/workload-uid": "1", "app": "web"}
    assert identity_of(whose) == {"compute.datumapis.com/workload-uid": "1"}


def test_a_node_in_a_city_says_where() -> None:
    found = node_labels("dfw-2", "DFW")
    assert (found["topology.datum.net/location"], found["topology.datum.net/city-code"]) == ("dfw-2", "DFW")
