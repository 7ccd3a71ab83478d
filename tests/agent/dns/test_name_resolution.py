"""Services and instances by name and by address, resolved within the client's networks."""

from __future__ import annotations

import pytest

from tarmac.agent.dns.dnsmessages import NO_SUCH_NAME, Query, Question, write_answer
from tarmac.agent.dns.domainnames import name_of
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.view import (
    DnsView,
    EndpointRecord,
    ExternalRecord,
    InstanceRecord,
    NetworkAddress,
    PortRecord,
    ServiceRecord,
    SliceRecord,
)
from tests.agent.dns.asking import TYPES, Said, ask, read

HOME, AWAY = "default/default", "other/default"
HTTP, DNS = PortRecord("http", "tcp", 80), PortRecord("dns", "udp", 53)


def endpoint(address: str, hostname: str = "", ready: bool = True, network: str = HOME) -> EndpointRecord:
    return EndpointRecord(hostname, NetworkAddress(network, address), ready)


@pytest.fixture
def view() -> DnsView:
    view = DnsView()
    view.put_service(("default", "web"), ServiceRecord(("10.96.0.9", "fd00:96::9"), (HTTP, DNS)))
    ready = SliceRecord(HOME, (PortRecord("http", "tcp", 8080),), (endpoint("10.128.0.2"),))
    view.put_slice(("default", "web"), "web-1", ready)
    view.put_service(("default", "db"), ServiceRecord((), (HTTP,)))
    members = (endpoint("10.128.0.3", "db-0"), endpoint("10.128.0.4"), endpoint("10.128.0.5", "db-2", ready=False))
    view.put_slice(("default", "db"), "db-1", SliceRecord(HOME, (PortRecord("http", "tcp", 8080),), members))
    view.put_slice(
        ("default", "db"), "db-2", SliceRecord(HOME, (PortRecord("http", "tcp", 8080),), (endpoint("fd20::3", "db-0"),))
    )
    view.put_slice(("default", "db"), "db-3", SliceRecord(AWAY, (), (endpoint("10.128.0.9", network=AWAY),)))
    view.put_service(("default", "empty"), ServiceRecord(("10.96.0.10",), (HTTP,)))
    view.put_service(("default", "outside"), ServiceRecord(external="www.example.com"))
    view.put_service(("other", "secret"), ServiceRecord(("10.96.0.11",), (HTTP,)))
    view.put_slice(("other", "secret"), "s", SliceRecord(AWAY, (), (endpoint("10.128.0.2", network=AWAY),)))
    view.put_service(("default", "kubernetes"), ServiceRecord(("10.96.0.1",), (PortRecord("https", "tcp", 443),)))
    view.put_slice(("default", "kubernetes"), "k", SliceRecord("", (), (endpoint("192.0.2.1", network=""),)))
    both = (
        NetworkAddress(HOME, "10.128.0.2"),
        NetworkAddress(HOME, "fd20::2"),
        NetworkAddress("default/back", "10.128.0.2"),
    )
    view.put_member(("default", "app"), "app-0", InstanceRecord(both, ready=True))
    view.put_member(("default", "app"), "app-1", InstanceRecord((NetworkAddress(HOME, "10.128.0.7"),), ready=False))
    view.put_member(("default", "app"), "app-2", InstanceRecord((NetworkAddress(HOME, "10.128.0.8"),), ready=True))
    return view


def answered(view: DnsView, name: str, type: str = "A", *networks: str) -> Said | None:
    question = Question(name_of(name), TYPES[type])
    found = Resolver(view).answer(question, networks or (HOME,))
    if found is None:
        return None
    asked = ask(name, type)[12:]
    return read(write_answer(Query(7, 0x0100, question, asked), found, 65535))


def values(said: Said | None) -> list[str]:
    assert said is not None
    return [each.partition(" ")[2] for each in said.answers]


@pytest.mark.parametrize(
    ("name", "type", "expected"),
    [
        ("web.default.svc.cluster.local", "A", ["A 10.96.0.9"]),
        ("WEB.Default.svc.cluster.LOCAL.", "AAAA", ["AAAA fd00:96::9"]),
        ("web.default.svc.cluster.local", "ANY", ["A 10.96.0.9", "AAAA fd00:96::9"]),
        ("db.default.svc.cluster.local", "A", ["A 10.128.0.3", "A 10.128.0.4"]),
        ("db.default.svc.cluster.local", "AAAA", ["AAAA fd20::3"]),
        ("db-0.db.default.svc.cluster.local", "A", ["A 10.128.0.3"]),
        ("db-0.db.default.svc.cluster.local", "AAAA", ["AAAA fd20::3"]),
        ("10-128-0-4.db.default.svc.cluster.local", "A", ["A 10.128.0.4"]),
        ("kubernetes.default.svc.cluster.local", "A", ["A 10.96.0.1"]),
        ("empty.default.svc.cluster.local", "A", ["A 10.96.0.10"]),
        ("_http._tcp.web.default.svc.cluster.local", "SRV", ["SRV 80 web.default.svc.cluster.local"]),
        ("_dns._udp.web.default.svc.cluster.local", "SRV", ["SRV 53 web.default.svc.cluster.local"]),
        (
            "web.default.svc.cluster.local",
            "SRV",
            ["SRV 80 web.default.svc.cluster.local", "SRV 53 web.default.svc.cluster.local"],
        ),
        (
            "_http._tcp.db.default.svc.cluster.local",
            "SRV",
            ["SRV 8080 db-0.db.default.svc.cluster.local", "SRV 8080 10-128-0-4.db.default.svc.cluster.local"],
        ),
        ("outside.default.svc.cluster.local", "CNAME", ["CNAME www.example.com"]),
        ("app-0.app.default.inst.cluster.local", "A", ["A 10.128.0.2"]),
        ("app-1.app.default.inst.cluster.local", "A", ["A 10.128.0.7"]),
        ("app.default.inst.cluster.local", "A", ["A 10.128.0.2", "A 10.128.0.8"]),
        ("app.default.inst.cluster.local", "AAAA", ["AAAA fd20::2"]),
        ("9.0.96.10.in-addr.arpa", "PTR", ["PTR web.default.svc.cluster.local"]),
        ("3.0.128.10.in-addr.arpa", "PTR", ["PTR db-0.db.default.svc.cluster.local"]),
        ("7.0.128.10.in-addr.arpa", "PTR", ["PTR app-1.app.default.inst.cluster.local"]),
        ("cluster.local", "SOA", ["SOA ns.dns.cluster.local"]),
    ],
)
def test_services_and_instances_resolve_to_their_addresses(
    view: DnsView, name: str, type: str, expected: list[str]
) -> None:
    said = answered(view, name, type)
    assert values(said) == expected
    assert said is not None
    assert said.authoritative
    assert said.code == 0


@pytest.mark.parametrize(
    "name",
    [
        "nothing.default.svc.cluster.local",
        "web.nowhere.svc.cluster.local",
        "nowhere.svc.cluster.local",
        "x.web.default.svc.cluster.local",
        "a.b.c.web.default.svc.cluster.local",
        "_grpc._tcp.web.default.svc.cluster.local",
        "_http._udp.web.default.svc.cluster.local",
        "secret.other.svc.cluster.local",
        "db-2.db.default.svc.cluster.local",
        "app-9.app.default.inst.cluster.local",
        "www.example.com.cluster.local",
        "a.b.c.d.inst.cluster.local",
        "99.0.96.10.in-addr.arpa",
    ],
)
def test_a_missing_name_is_answered_with_its_negative_ttl(view: DnsView, name: str) -> None:
    said = answered(view, name)
    assert said is not None
    assert (said.code, said.answers) == (NO_SUCH_NAME, [])
    assert [each.split()[1] for each in said.authority] == ["SOA"]
    assert said.ttls == [5]


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("web.default.svc.cluster.local", "TXT"),
        ("empty.default.svc.cluster.local", "AAAA"),
        ("_http._tcp.web.default.svc.cluster.local", "A"),
        ("_tcp.web.default.svc.cluster.local", "A"),
        ("default.svc.cluster.local", "A"),
        ("svc.cluster.local", "A"),
        ("default.inst.cluster.local", "A"),
        ("cluster.local", "A"),
        ("app-2.app.default.inst.cluster.local", "AAAA"),
        ("9.0.96.10.in-addr.arpa", "A"),
    ],
)
def test_a_name_without_such_data_exists(view: DnsView, name: str, type: str) -> None:
    said = answered(view, name, type)
    assert said is not None
    assert (said.code, said.answers) == (0, [])
    assert [each.split()[1] for each in said.authority] == ["SOA"]


@pytest.mark.parametrize(
    "name", ["www.example.com", "local", "", "notcluster.local", "8.8.8.8.in-addr.arpa", "8.8.in-addr.arpa"]
)
def test_other_names_are_for_others(view: DnsView, name: str) -> None:
    assert answered(view, name) is None


def test_addresses_on_other_networks_do_not_exist(view: DnsView) -> None:
    assert values(answered(view, "app-0.app.default.inst.cluster.local", "A", "default/back")) == ["A 10.128.0.2"]
    assert values(answered(view, "app.default.inst.cluster.local", "A", "default/back")) == ["A 10.128.0.2"]
    for name in (
        "app-2.app.default.inst.cluster.local",
        "app.default.inst.cluster.local",
        "web.default.svc.cluster.local",
    ):
        said = answered(view, name, "A", AWAY)
        assert said is not None
        assert said.code == NO_SUCH_NAME
    assert values(answered(view, "secret.other.svc.cluster.local", "A", AWAY)) == ["A 10.96.0.11"]
    assert values(answered(view, "db.default.svc.cluster.local", "A", AWAY)) == ["A 10.128.0.9"]
    assert values(answered(view, "kubernetes.default.svc.cluster.local", "A", AWAY)) == ["A 10.96.0.1"]
    assert values(answered(view, "11.0.96.10.in-addr.arpa", "PTR", AWAY)) == ["PTR secret.other.svc.cluster.local"]
    hidden = answered(view, "11.0.96.10.in-addr.arpa", "PTR", HOME)
    assert hidden is not None
    assert hidden.code == NO_SUCH_NAME
    both = answered(view, "db.default.svc.cluster.local", "A", HOME, AWAY)
    assert values(both) == ["A 10.128.0.3", "A 10.128.0.4", "A 10.128.0.9"]


def test_service_records_come_with_addresses(view: DnsView) -> None:
    said = answered(view, "_http._tcp.web.default.svc.cluster.local", "SRV")
    assert said is not None
    assert said.additional == [
        "web.default.svc.cluster.local A 10.96.0.9",
        "web.default.svc.cluster.local AAAA fd00:96::9",
    ]


def test_names_of_deleted_objects_do_not_exist(view: DnsView) -> None:
    view.put_service(("default", "web"), None)
    view.put_slice(("default", "db"), "db-1", None)
    view.put_member(("default", "app"), "app-1", None)
    for name in (
        "web.default.svc.cluster.local",
        "9.0.96.10.in-addr.arpa",
        "3.0.128.10.in-addr.arpa",
        "app-1.app.default.inst.cluster.local",
    ):
        said = answered(view, name, "PTR" if "arpa" in name else "A")
        assert said is not None
        assert said.code == NO_SUCH_NAME


@pytest.mark.parametrize("sort", ["svc", "inst", "external-services"])
def test_a_namespace_without_names_for_the_client_looks_like_a_missing_one(view: DnsView, sort: str) -> None:
    view.put_member(("other", "app"), "app-0", InstanceRecord((NetworkAddress(AWAY, "10.128.0.2"),), ready=True))
    view.put_external(("other", "db"), ExternalRecord((), (), frozenset({AWAY}), "2026-01-01T00:00:00Z"))
    for client, code in ((AWAY, 0), (HOME, NO_SUCH_NAME), ("third/default", NO_SUCH_NAME)):
        said, missing = (answered(view, f"{each}.{sort}.cluster.local", "A", client) for each in ("other", "nowhere"))
        assert said is not None
        assert missing is not None
        assert (said.code, missing.code) == (code, NO_SUCH_NAME)
        assert said.authority == missing.authority


def test_a_namespace_with_a_name_for_the_client_exists_until_that_is_gone(view: DnsView) -> None:
    def code() -> int:
        said = answered(view, "other.svc.cluster.local")
        return -1 if said is None else said.code

    shared = SliceRecord(HOME, (), (endpoint("10.128.0.9"),))
    view.put_slice(("other", "secret"), "here", shared)
    assert code() == 0, "a name below it resolves, so the answer must not be NXDOMAIN"
    view.put_slice(("other", "secret"), "here", shared._replace(endpoints=()))
    assert code() == NO_SUCH_NAME
    view.put_slice(("other", "secret"), "here", shared)
    view.put_slice(("other", "secret"), "here", None)
    assert code() == NO_SUCH_NAME


def test_a_target_of_an_external_name_is_told_in_its_own_namespace(view: DnsView) -> None:
    name = "outside.default.svc.cluster.local"
    assert values(answered(view, name, "CNAME", "default/back")) == ["CNAME www.example.com"]
    for kind in ("A", "AAAA", "CNAME", "ANY", "SRV"):
        said = answered(view, name, kind, AWAY)
        assert said is not None
        assert (said.code, said.answers) == (NO_SUCH_NAME, [])
