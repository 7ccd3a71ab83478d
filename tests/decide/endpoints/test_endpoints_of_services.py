"""The pods behind a Service, their ports and networks, and the assignment of endpoints to slices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.decide.endpoints import EndpointGroup, EndpointPod, ResolvedPort, ServiceFacts, grouped, shared_out
from tarmac.decide.endpoints.shares import MAX_SHARE

WEB = {"name": "web", "port": 80, "targetPort": "http"}


def service(**spec: Any) -> ServiceFacts:
    content = {"selector": {"app": "web"}, "ipFamilies": ["IPv4"], "ports": [WEB], "clusterIP": "10.96.0.9", **spec}
    return msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default", "uid": "s"}, "spec": content}, ServiceFacts
    )


def pod(
    name: str,
    *ips: str,
    ready: bool = True,
    phase: str = "Running",
    port: int = 8080,
    network: str = "",
    going: bool = False,
    **spec: Any,
) -> EndpointPod:
    nic = AttachedInterface("eth0", network, addresses=[f"{ip}/20" for ip in ips])
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name}
    metadata["annotations"] = {ANNOTATION_INTERFACES: encode_interfaces([nic])} if network else {}
    if going:
        metadata["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    containers = [
        {"ports": [{"name": "http", "containerPort": port}, {"name": "http", "containerPort": 53, "protocol": "UDP"}]}
    ]
    status = {
        "phase": phase,
        "podIPs": [{"ip": ip} for ip in ips],
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": "n", "containers": containers, **spec}, "status": status},
        EndpointPod,
    )


def addresses(groups: dict[EndpointGroup, Any]) -> list[str]:
    return [address for endpoints in groups.values() for each in endpoints for address in each.document["addresses"]]


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "dfw"}]}),
        ("PreferSameZone", {"forZones": [{"name": "dfw"}]}),
        ("PreferSameNode", {"forZones": [{"name": "dfw"}], "forNodes": [{"name": "n"}]}),
    ],
)
def test_only_ready_endpoints_have_hints(distribution: str | None, hints: Any) -> None:
    wanted = service(**{"trafficDistribution": distribution} if distribution else {})
    pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", ready=False), pod("c", "10.0.0.3", nodeName="unheard-of")]
    (found,) = grouped(wanted, pods, {"n": "dfw"}).values()
    ready, unready, nowhere = (each.document for each in found)
    assert (ready["zone"], ready.get("hints")) == ("dfw", hints)
    assert (unready["zone"], "hints" in unready) == ("dfw", False)
    own_node = {"forNodes": [{"name": "unheard-of"}]} if distribution == "PreferSameNode" else None
    assert ("zone" in nowhere, nowhere.get("hints")) == (False, own_node)


def test_a_pod_counts_from_its_first_address_to_its_end() -> None:
    pods = [pod("a", "10.0.0.1"), pod("b"), pod("c", "10.0.0.3", phase="Failed"), pod("d", "10.0.0.4", ready=False)]
    assert addresses(grouped(service(), pods)) == ["10.0.0.1", "10.0.0.4"]


@pytest.mark.parametrize(
    ("ready", "going", "published", "expected"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (True, True, False, (False, True, True)),
        (False, True, True, (True, False, True)),
        (False, False, True, (True, False, False)),
    ],
)
def test_conditions_are_those_of_kubernetes(
    ready: bool, going: bool, published: bool, expected: tuple[bool, bool, bool]
) -> None:
    groups = grouped(service(publishNotReadyAddresses=published), [pod("a", "10.0.0.1", ready=ready, going=going)])
    (endpoint,) = next(iter(groups.values()))
    said = endpoint.document["conditions"]
    assert (said["ready"], said["serving"], said["terminating"]) == expected


def test_a_named_port_is_looked_up_in_each_pod() -> None:
    groups = grouped(service(), [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", port=9090), pod("c", "10.0.0.3")])
    assert {group.ports: [each.uid for each in endpoints] for group, endpoints in groups.items()} == {
        (ResolvedPort("web", 8080, "TCP", None),): ["a", "c"],
        (ResolvedPort("web", 9090, "TCP", None),): ["b"],
    }


def test_a_port_that_a_pod_does_not_have_is_left_out() -> None:
    missing = {"name": "admin", "port": 81, "targetPort": "admin"}
    plain = {"name": "plain", "port": 82, "appProtocol": "h2c"}
    (group,) = grouped(service(ports=[missing, WEB, plain]), [pod("a", "10.0.0.1")])
    assert group.ports == (ResolvedPort("web", 8080, "TCP", None), ResolvedPort("plain", 82, "TCP", "h2c"))


def test_families_and_networks_are_kept_apart() -> None:
    pods = [
        pod("a", "10.0.0.1", "fd20::1", network="default/x"),
        pod("b", "10.0.0.1", network="default/y"),
        pod("c", "192.0.2.1"),
    ]
    groups = grouped(service(ipFamilies=["IPv4", "IPv6"]), pods)
    assert {(group.family, group.network): [each.uid for each in found] for group, found in groups.items()} == {
        ("IPv4", "default/x"): ["a"],
        ("IPv6", "default/x"): ["a"],
        ("IPv4", "default/y"): ["b"],
        ("IPv4", ""): ["c"],
    }


def test_a_service_without_pods_still_has_a_slice_of_each_family() -> None:
    assert grouped(service(ipFamilies=["IPv4", "IPv6"]), []) == {
        EndpointGroup("IPv4", "", ()): [],
        EndpointGroup("IPv6", "", ()): [],
    }


def test_pods_of_the_services_subdomain_have_names() -> None:
    pods = [pod("a", "10.0.0.1", hostname="a", subdomain="web"), pod("b", "10.0.0.2", hostname="b", subdomain="other")]
    (endpoints,) = grouped(service(clusterIP="None"), pods).values()
    assert [each.document.get("hostname") for each in endpoints] == ["a", None]


def test_a_service_without_a_selector_gets_no_endpoints() -> None:
    assert not service(selector=None).selects
    assert not service(type="ExternalName").selects
    assert service().selects


members = st.sets(st.integers(0, 999).map(str), max_size=350)


@given(present=st.lists(members, max_size=5), wanted=members)
def test_everybody_is_in_exactly_one_slice_and_nobody_moves(present: list[set[str]], wanted: set[str]) -> None:
    before: dict[int, set[str]] = {}
    for number, share in enumerate(present):
        before[number] = {
            each for each in list(share)[:MAX_SHARE] if not any(each in other for other in before.values())
        }
    after = shared_out(before, sorted(wanted))
    assert sorted(each for share in after.values() for each in share) == sorted(wanted)
    assert all(len(share) <= MAX_SHARE for share in after.values())
    for number, share in before.items():
        assert share & wanted <= set(after.get(number, ()))
