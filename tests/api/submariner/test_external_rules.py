"""Rules of external services and of the addresses the outside sees."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tests.api.checking import causes, make


def service(**changes: Any) -> JsonObject:
    source = {"service": {"name": "orders"}, "sourceIP": "192.0.2.7"}
    spec = {"targetIP": "203.0.113.9", "sources": [source], "ports": [{"port": 5432, "targetPort": 8000}], **changes}
    return make("ExternalService", spec)


def source(**changes: Any) -> dict[str, Any]:
    return {"sources": [{"service": {"name": "orders"}, "sourceIP": "192.0.2.7", **changes}]}


TWO_NAMELESS = [{"port": 1, "name": "a"}, {"port": 2}]
SAME_DIAL = [{"name": "a", "port": 1, "targetPort": 9}, {"name": "b", "port": 9}]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (service(), []),
        (service(targetIP=""), ["Invalid spec.targetIP"]),
        (service(targetIP="127.0.0.1"), ["Invalid spec.targetIP"]),
        (service(targetIP="169.254.169.254"), ["Invalid spec.targetIP"]),
        (service(targetIP="010.0.0.1"), ["Invalid spec.targetIP"]),
        (service(sources=[]), ["Invalid spec.sources"]),
        (service(**source(service={"name": ""})), ["Invalid spec.sources[0].service.name"]),
        (service(**source(sourceIP="")), ["Required spec.sources[0].sourceIP"]),
        (service(**source(sourceIPClaim={"name": "c"})), ["Forbidden spec.sources[0].sourceIPClaim"]),
        (service(**source(sourceIP="2001:db8::1")), ["Invalid spec.sources[0].sourceIP"]),
        (service(ports=[]), ["Invalid spec.ports"]),
        (service(ports=[{"port": 0}]), ["Invalid spec.ports[0].port"]),
        (service(ports=[{"port": 5432, "targetPort": "http"}]), ["Invalid spec.ports[0].targetPort"]),
        (service(ports=[{"port": 5432, "name": "sql", "targetPort": "sql"}]), []),
        (service(ports=TWO_NAMELESS), ["Required spec.ports[1].name"]),
        (service(ports=SAME_DIAL), ["Duplicate spec.ports[1].targetPort"]),
    ],
)
def test_external_services(obj: JsonObject, expected: list[str]) -> None:
    assert causes(obj) == expected


def address_class(**changes: Any) -> JsonObject:
    return make("SourceIPClass", {"ranges": [{"cidr": "192.0.2.0/28"}], **changes})


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (address_class(), []),
        (address_class(ranges=[{"start": "192.0.2.1", "end": "192.0.2.9"}]), []),
        (address_class(ranges=[{}]), ["Required spec.ranges[0]"]),
        (address_class(ranges=[{"start": "192.0.2.9", "end": "192.0.2.1"}]), ["Invalid spec.ranges[0].end"]),
        (address_class(ranges=[{"start": "192.0.2.9", "end": "2001:db8::1"}]), ["Invalid spec.ranges[0].end"]),
        (address_class(ranges=[{"cidr": "192.0.2.0/28", "start": "192.0.2.1"}]), ["Forbidden spec.ranges[0].cidr"]),
        (
            address_class(ranges=[{"cidr": "192.0.2.0/28"}, {"start": "192.0.2.3", "end": "192.0.2.3"}]),
            ["Invalid spec.ranges[1]"],
        ),
        (address_class(allowedTargets=["10.0.0.1/8"]), ["Invalid spec.allowedTargets[0]"]),
        (address_class(holdDown="a day"), ["Invalid spec.holdDown"]),
        (address_class(sharing="Everybody"), ["NotSupported spec.sharing"]),
    ],
)
def test_classes(obj: JsonObject, expected: list[str]) -> None:
    assert causes(obj) == expected


def test_a_class_says_no_by_default() -> None:
    obj = address_class()
    causes(obj)
    spec = obj["spec"]
    assert (spec["sharing"], spec["reclaimPolicy"], spec["holdDown"]) == ("Exclusive", "Delete", "24h")
    assert "allowedNamespaces" not in spec


@pytest.mark.parametrize(
    ("address", "name"), [("192.0.2.7", "192.0.2.7"), ("2001:db8::1", "20010db8000000000000000000000001")]
)
def test_an_address_is_named_after_itself(address: str, name: str) -> None:
    spec = {"address": address, "className": "partner"}
    assert causes(make("SourceIP", spec, name=name)) == []
    assert causes(make("SourceIP", spec, name="mine")) == ["Invalid metadata.name"]
    other = make("SourceIP", {**spec, "className": "other"}, name=name)
    assert causes(other, make("SourceIP", spec, name=name)) == ["Invalid spec.className"]


def test_a_bound_claim_keeps_what_it_has() -> None:
    bound = make("SourceIPClaim", {"className": "a"}, status={"phase": "Bound"})
    pending = make("SourceIPClaim", {"className": "a"}, status={"phase": "Pending"})
    changed = make("SourceIPClaim", {"className": "b", "limits": {"connections": 5}})
    assert causes(changed, pending) == []
    assert causes(changed, bound) == ["Invalid spec.className"]


def test_a_claim_asks_for_an_address_of_its_families() -> None:
    assert causes(make("SourceIPClaim", {"className": "a", "address": "2001:db8::1"})) == ["Invalid spec.address"]
