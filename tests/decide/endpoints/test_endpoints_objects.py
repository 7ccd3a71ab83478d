"""The v1 Endpoints object of a Service: subsets, readiness, truncation, labels, annotations, unchanged objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.schema import JsonObject
from tarmac.decide.endpoints import EndpointPod, EndpointsBuilder, ResolvedPort, ServiceFacts
from tarmac.decide.endpoints.endpointsbuilder import OVER_CAPACITY, TRIGGER_TIME
from tarmac.decide.endpoints.subsets import Subset, SubsetAddresses, repacked, truncated
from tests.decide.endpoints.test_endpoints_of_services import WEB, pod, service
from tests.support.working import finished, longest_step

ADMIN = {"name": "admin", "port": 81, "targetPort": 9000}


def made(wanted: ServiceFacts, *pods: EndpointPod, known: JsonObject | None = None) -> JsonObject | None:
    listing = EndpointsBuilder(wanted)
    for each in pods:
        listing.add(each)
    return finished(listing.object(known))


def subsets(wanted: ServiceFacts, *pods: EndpointPod) -> list[JsonObject]:
    found = made(wanted, *pods)
    assert found is not None
    return found.get("subsets") or []


def listed(subset: JsonObject) -> tuple[list[str], list[str], list[int]]:
    return (
        [each["ip"] for each in subset.get("addresses") or ()],
        [each["ip"] for each in subset.get("notReadyAddresses") or ()],
        [each["port"] for each in subset.get("ports") or ()],
    )


def since(one: EndpointPod, time: str) -> EndpointPod:
    assert one.status.conditions
    one.status.conditions[0].last_transition_time = time
    return one


def test_an_address_says_whose_it_is_and_where() -> None:
    (found,) = subsets(service(), pod("a", "10.0.0.1", hostname="a", subdomain="web"))
    target = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "a"}
    assert found == {
        "addresses": [{"ip": "10.0.0.1", "hostname": "a", "nodeName": "n", "targetRef": target}],
        "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}],
    }


def test_ready_and_not_ready_share_a_subset_in_order() -> None:
    pods = [pod("c", "10.0.0.3"), pod("b", "10.0.0.2", ready=False), pod("a", "10.0.0.1")]
    assert [listed(each) for each in subsets(service(), *pods)] == [(["10.0.0.1", "10.0.0.3"], ["10.0.0.2"], [8080])]


def test_ports_of_the_same_addresses_share_a_subset_and_others_do_not() -> None:
    pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", port=8081)]
    found = subsets(service(ports=[WEB, ADMIN]), *pods)
    assert [listed(each) for each in found] == [
        (["10.0.0.1", "10.0.0.2"], [], [9000]),
        (["10.0.0.1"], [], [8080]),
        (["10.0.0.2"], [], [8081]),
    ]


def test_a_pod_without_the_named_port_is_not_listed() -> None:
    assert subsets(service(ports=[{"port": 80, "targetPort": "nobody-has-it"}]), pod("a", "10.0.0.1")) == []


def test_only_a_headless_service_may_do_without_ports() -> None:
    wanted = service(ports=None, clusterIP="None")
    (found,) = subsets(wanted, pod("a", "10.0.0.1"))
    assert listed(found) == (["10.0.0.1"], [], [])


@pytest.mark.parametrize(
    ("ready", "going", "published", "expected"),
    [
        (True, False, False, [(["10.0.0.1"], [], [8080])]),
        (False, False, False, [([], ["10.0.0.1"], [8080])]),
        (True, True, False, []),
        (False, False, True, [(["10.0.0.1"], [], [8080])]),
        (False, True, True, [(["10.0.0.1"], [], [8080])]),
    ],
)
def test_endpoints_list_ready_and_published_pods(ready: bool, going: bool, published: bool, expected: Any) -> None:
    wanted = service(publishNotReadyAddresses=published)
    assert [listed(each) for each in subsets(wanted, pod("a", "10.0.0.1", ready=ready, going=going))] == expected


def test_only_the_first_family_is_listed() -> None:
    wanted = service(ipFamilies=["IPv6", "IPv4"])
    (found,) = subsets(wanted, pod("a", "10.0.0.1", "fd00::1"), pod("b", "10.0.0.2"))
    assert listed(found)[0] == ["fd00::1"]


def test_it_has_the_labels_of_its_service_and_no_others() -> None:
    wanted = service(clusterIP="None")
    wanted.metadata.labels = {"team": "a"}
    found = made(wanted)
    assert found is not None
    expected = {
        "team": "a",
        "service.kubernetes.io/headless": "",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }
    assert found["metadata"]["labels"] == expected
    assert "subsets" not in found
    found["metadata"] |= {"labels": {**expected, "more": "x"}, "annotations": {"mine": "x"}, "resourceVersion": "7"}
    again = made(wanted, known=found)
    assert again is not None
    assert again["metadata"]["labels"] == expected
    assert (again["metadata"]["annotations"], again["metadata"]["resourceVersion"]) == ({"mine": "x"}, "7")


def test_endpoints_with_equal_content_are_not_written() -> None:
    pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", ready=False)]
    known = made(service(), *pods)
    assert made(service(), *reversed(pods), known=known) is None
    assert made(service(), pod("a", "10.0.0.1"), pod("b", "10.0.0.2"), known=known) is not None


def test_the_time_of_a_change_is_that_of_the_pods_it_is_about() -> None:
    wanted = service()
    wanted.metadata.creation_timestamp = "2026-11-15T10:00:00Z"
    one, two, three = (since(pod(name, f"10.0.0.{name}"), f"2026-11-15T10:0{name}:00Z") for name in "123")
    first = made(wanted, one)
    assert first is not None
    assert first["metadata"]["annotations"] == {TRIGGER_TIME: "2026-11-15T10:00:00Z"}
    second = made(wanted, one, three, two, known=first)
    assert second is not None
    assert second["metadata"]["annotations"] == {TRIGGER_TIME: "2026-11-15T10:02:00Z"}
    third = made(wanted, one, two, known=second)
    assert third is not None
    assert third["metadata"]["annotations"] == {}, "an endpoint only disappeared"


def many(count: int, start: int = 0, **more: Any) -> list[EndpointPod]:
    return [
        pod(f"{start + each:05}", f"10.{start // 65536}.{each // 256}.{each % 256}", **more) for each in range(count)
    ]


def test_beyond_a_thousand_it_is_cut_off_and_says_so() -> None:
    pods = [*many(900), *many(200, 65536, ready=False)]
    known = made(service(), *pods)
    assert known is not None
    ready, not_ready, _ = listed(known["subsets"][0])
    assert (len(ready), len(not_ready)) == (900, 100)
    assert known["metadata"]["annotations"][OVER_CAPACITY] == "truncated"
    assert made(service(), *pods, known=known) is None, "truncated once"
    fewer = made(service(), *pods[:1000], known=known)
    assert fewer is not None
    assert OVER_CAPACITY not in fewer["metadata"]["annotations"]


def test_beyond_two_thousand_ports_it_is_cut_off_and_says_so() -> None:
    names = [f"p{number}" for number in range(900)]
    wanted = service(ports=[{"name": name, "port": 1 + at, "targetPort": name} for at, name in enumerate(names)])
    pods = [
        pod(
            f"w{first}",
            f"10.0.0.{first + 1}",
            containers=[{"ports": [{"name": name, "containerPort": 1 + first + at} for at, name in enumerate(names)]}],
        )
        for first in range(3)
    ]
    whole, cut = made(wanted, *pods[:2]), made(wanted, *pods)
    assert whole is not None
    assert cut is not None
    assert [len(each["subsets"]) for each in (whole, cut)] == [2, 2]
    assert OVER_CAPACITY not in whole["metadata"]["annotations"]
    assert cut["metadata"]["annotations"][OVER_CAPACITY] == "truncated"
    assert made(wanted, *pods, known=cut) is None, "already marked as truncated"


def test_each_subset_keeps_its_share() -> None:
    pods = [*many(1500), *many(500, 65536, port=8081), *many(10, 131072, port=8082, ready=False)]
    found = subsets(service(), *pods)
    assert [(len(ready), len(others)) for ready, others, _ in map(listed, found)] == [(750, 0), (250, 0)]


PORTS = [ResolvedPort(name, number, "TCP", None) for name, number in (("a", 1), ("b", 2), ("c", 3))]
ADDRESSES = [(f"10.0.0.{number}", "") for number in range(4)]
OFFERS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(PORTS), unique=True),
        st.dictionaries(st.sampled_from(ADDRESSES), st.booleans(), min_size=1),
    ).map(lambda each: SubsetAddresses(*each)),
    max_size=5,
)


def meant(offers: list[SubsetAddresses]) -> dict[tuple[ResolvedPort | None, Any], bool]:
    """Return each port and address with its readiness; one unready entry makes it unready."""
    found: dict[tuple[ResolvedPort | None, Any], bool] = {}
    for offer in offers:
        for port in offer.ports or (None,):
            for address, ready in offer.addresses.items():
                found[port, address] = ready and found.get((port, address), True)
    return found


@given(OFFERS)
def test_repacking_keeps_who_answers_where(offers: list[SubsetAddresses]) -> None:
    found = finished(repacked(offers, 1000))
    again = [
        SubsetAddresses(each.ports, {**dict.fromkeys(each.ready, True), **dict.fromkeys(each.not_ready, False)})
        for each in found
    ]
    without = {key: ready for key, ready in meant(offers).items() if key[0] is not None}
    assert {key: ready for key, ready in meant(again).items() if key[0] is not None} == without
    ports = [port for each in found for port in each.ports]
    assert len(ports) == len(set(ports)), "a port is in one subset"
    assert finished(repacked(again, 1000)) == found, "stable"


@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 700)), min_size=1, max_size=6))
def test_truncation_keeps_ready_ones_first_and_never_more_than_there_is_room_for(sizes: list[tuple[int, int]]) -> None:
    addresses = [(str(number), "") for number in range(1400)]
    before = [
        Subset((PORTS[0],), tuple(addresses[:ready]), tuple(addresses[700 : 700 + rest])) for ready, rest in sizes
    ]
    after = truncated(before)
    ready, rest = sum(len(each.ready) for each in after), sum(len(each.not_ready) for each in after)
    there = sum(ready for ready, _ in sizes)
    assert ready == min(there, 1000)
    assert rest <= max(0, 1000 - there)
    assert all(each.ready or each.not_ready for each in after)


def test_ports_times_addresses_are_bounded() -> None:
    """Two thousand ports that resolve differently in each pod would exceed any object."""
    addresses = {(str(number), ""): True for number in range(2000)}
    offers = [
        SubsetAddresses(
            [ResolvedPort(f"p{number}", number + side, "TCP", None) for number in range(1, 2000)], addresses
        )
        for side in (0, 1)
    ]
    offers += [SubsetAddresses([port], {("more", str(index)): True}) for index, port in enumerate(offers[0].ports)]
    found = finished(repacked(offers, 10_000))
    assert sum(len(each.ready) for each in found) <= 12_000


def test_others_have_their_turn_between_the_pieces() -> None:
    """Ten thousand pods on one port, and ten thousand on a port of their own each."""
    for pods in (many(10_000), [pod(str(n), f"10.0.{n // 256}.{n % 256}", port=n + 1) for n in range(10_000)]):
        listing = EndpointsBuilder(service())
        for each in pods:
            listing.add(each)
        assert longest_step(lambda listing=listing: listing.object(None)) < 0.05
