"""EndpointSlices of Endpoints that a user wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tarmac.api.schema import JsonObject
from tarmac.decide.endpoints import EndpointsFacts, Mirrors, mirrors
from tarmac.decide.endpoints.mirrors import OF_A_SUBSET, OF_AN_OBJECT
from tests.support.working import finished, least_cpu, longest_step

HTTP = {"name": "http", "port": 80}


def written(*subsets: JsonObject, **metadata: Any) -> EndpointsFacts:
    return msgspec.convert({"metadata": {"name": "web", **metadata}, "subsets": list(subsets)}, EndpointsFacts)


def ips(count: int, first: int = 10) -> list[JsonObject]:
    return [{"ip": f"{first}.{each // 65536}.{each // 256 % 256}.{each % 256}"} for each in range(count)]


def mirrored(endpoints: EndpointsFacts) -> Mirrors:
    return finished(mirrors(endpoints))


def shown(found: Mirrors) -> dict[tuple[str, tuple[int, ...]], list[tuple[str, bool]]]:
    return {
        (group.family, tuple(port.number for port in group.ports)): [
            (each["addresses"][0], each["conditions"]["ready"]) for each in endpoints
        ]
        for group, endpoints in found.slices.items()
    }


def test_a_subset_becomes_a_slice_for_each_family() -> None:
    subset = {
        "addresses": [{"ip": "192.0.2.1", "hostname": "a", "nodeName": "n", "targetRef": {"kind": "Pod", "name": "p"}}],
        "notReadyAddresses": [{"ip": "2001:db8::1"}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}],
    }
    found = mirrored(written(subset))
    assert shown(found) == {("IPv4", (80,)): [("192.0.2.1", True)], ("IPv6", (80,)): [("2001:db8::1", False)]}
    assert found.skipped == 0
    (first, _) = found.slices
    assert [port.document() for port in first.ports] == [
        {"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}
    ]
    assert found.slices[first] == [
        {
            "addresses": ["192.0.2.1"],
            "hostname": "a",
            "nodeName": "n",
            "targetRef": {"kind": "Pod", "name": "p"},
            "conditions": {"ready": True},
        }
    ]


def test_addresses_are_written_in_their_usual_form() -> None:
    addresses = [{"ip": "192.000.2.01"}, {"ip": "::ffff:192.0.2.2"}, {"ip": "2001:DB8:0::1"}, {"ip": "no address"}]
    found = mirrored(written({"addresses": addresses, "ports": [HTTP]}))
    assert shown(found) == {
        ("IPv4", (80,)): [("192.0.2.1", True), ("192.0.2.2", True)],
        ("IPv6", (80,)): [("2001:db8::1", True)],
    }
    assert found.skipped == 1


def test_an_address_listed_as_not_ready_is_not_ready() -> None:
    one = {"addresses": [{"ip": "192.0.2.1"}], "notReadyAddresses": [{"ip": "192.0.2.1"}], "ports": [HTTP]}
    assert shown(mirrored(written(one))) == {("IPv4", (80,)): [("192.0.2.1", False)]}


def test_without_ports_there_is_a_slice_without_ports() -> None:
    assert shown(mirrored(written({"addresses": [{"ip": "192.0.2.1"}]}))) == {("IPv4", ()): [("192.0.2.1", True)]}
    assert mirrored(written()) == Mirrors({}, 0)


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({}, True),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, False),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "false"}}, True),
        ({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}, False),
    ],
)
def test_labels_and_selectors_exclude_endpoints_from_mirroring(metadata: Any, wanted: bool) -> None:
    assert written(**metadata).mirrored is wanted


def test_of_a_subset_a_thousand_are_mirrored_the_ready_ones_first() -> None:
    found = mirrored(written({"addresses": ips(900), "notReadyAddresses": ips(300, 11), "ports": [HTTP]}))
    (endpoints,) = found.slices.values()
    assert [sum(each["conditions"]["ready"] is ready for each in endpoints) for ready in (True, False)] == [900, 100]
    assert (len(endpoints), found.skipped) == (OF_A_SUBSET, 200)


def test_shared_ports_do_not_multiply_without_end() -> None:
    """Five thousand ports, all in one large subset and each in a second one: 25 million entries in all."""
    ports = [{"name": f"p{number}", "port": number + 1} for number in range(5000)]
    shared = {"addresses": ips(5000), "ports": ports}
    own = [
        {"addresses": [{"ip": f"192.0.{index // 250}.{index % 250}"}], "ports": [port]}
        for index, port in enumerate(ports)
    ]
    endpoints = written(shared, *own)
    assert least_cpu(lambda: mirrored(endpoints)) < 0.5
    assert sum(map(len, mirrored(endpoints).slices.values())) <= 2 * OF_AN_OBJECT


@pytest.mark.parametrize(
    "subsets",
    [
        lambda: [{"addresses": ips(60_000), "ports": [HTTP]}],
        lambda: [{"addresses": [each], "ports": [{"port": 80}]} for each in ips(20_000)],
        lambda: [{"addresses": [each], "ports": [{"port": 1 + n}]} for n, each in enumerate(ips(20_000))],
    ],
    ids=["one subset", "one port", "each its own port"],
)
def test_others_have_their_turn_between_the_pieces(subsets: Callable[[], list[JsonObject]]) -> None:
    endpoints = written(*subsets())
    assert longest_step(lambda: mirrors(endpoints)) < 0.05


def test_a_long_list_is_read_to_its_bound() -> None:
    endpoints = written({"addresses": ips(60_000), "ports": [HTTP]})
    assert least_cpu(lambda: mirrored(endpoints)) < 0.25
    assert mirrored(endpoints).skipped == 59_000
