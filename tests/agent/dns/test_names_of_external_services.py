"""ExternalServices resolve by each of their names and by the address that pods dial, within the client's networks."""

from __future__ import annotations

import pytest

from tarmac.agent.dns.dnsmessages import NO_SUCH_NAME
from tarmac.agent.dns.view import DnsView, ExternalRecord, InstanceRecord, NetworkAddress, PortRecord, ServiceRecord
from tests.agent.dns.asking import Said
from tests.agent.dns.test_name_resolution import answered, values

HOME, SHOP, STRANGER = "default/default", "shop/default", "other/default"
SQL, LOG, UNNAMED = PortRecord("sql", "tcp", 8000), PortRecord("log", "udp", 514), PortRecord("", "tcp", 9)
FORMS = ("db.default.external-services", "db.external-services", "db.external-services.svc")


def external(
    *addresses: str,
    ports: tuple[PortRecord, ...] = (SQL, LOG, UNNAMED),
    networks: tuple[str, ...] = (),
    day: int = 1,
) -> ExternalRecord:
    return ExternalRecord(addresses, ports, frozenset(networks), f"2026-01-{day:02}T00:00:00Z")


@pytest.fixture
def view() -> DnsView:
    view = DnsView()
    view.put_external(("default", "db"), external("169.254.192.7", networks=(SHOP,)))
    view.put_external(("default", "six"), external("fd74:6172:6d63:fffc::7"))
    view.put_external(("default", "waiting"), external())
    return view


def says_nothing(said: Said | None) -> bool:
    """Return True if the name exists without data of this type."""
    return said is not None and (said.code, said.answers) == (0, [])


def is_missing(said: Said | None) -> bool:
    return said is not None and (said.code, said.answers) == (NO_SUCH_NAME, [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", [HOME, SHOP])
def test_e4_each_form_leads_to_the_address_that_pods_dial(view: DnsView, form: str, network: str) -> None:
    said = answered(view, f"{form}.cluster.local", "A", network)
    assert values(said) == ["A 169.254.192.7"]
    assert said is not None
    assert (said.ttls, said.authoritative) == ([5], True)
    assert says_nothing(answered(view, f"{form}.cluster.local", "AAAA", network))


@pytest.mark.parametrize("form", FORMS)
def test_for_askers_elsewhere_it_does_not_exist(view: DnsView, form: str) -> None:
    for name in (form, f"_sql._tcp.{form}", f"_tcp.{form}"):
        for kind in ("A", "AAAA", "SRV", "ANY"):
            assert is_missing(answered(view, f"{name}.cluster.local", kind, STRANGER))
    assert is_missing(answered(view, "7.192.254.169.in-addr.arpa", "PTR", STRANGER))


def test_e4_an_address_of_the_other_family_is_told_as_such(view: DnsView) -> None:
    assert values(answered(view, "six.external-services.cluster.local", "AAAA")) == ["AAAA fd74:6172:6d63:fffc::7"]
    assert says_nothing(answered(view, "six.external-services.cluster.local", "A"))


@pytest.mark.parametrize("form", FORMS)
def test_named_ports_are_those_that_pods_dial(view: DnsView, form: str) -> None:
    name = f"{form}.cluster.local"
    said = answered(view, f"_sql._tcp.{name}", "SRV")
    assert values(said) == [f"SRV 8000 {name}"]
    assert said is not None
    assert said.additional == [f"{name} A 169.254.192.7"]
    assert values(answered(view, f"_LOG._udp.{name}", "SRV")) == [f"SRV 514 {name}"]
    assert values(answered(view, name, "SRV")) == [f"SRV 8000 {name}", f"SRV 514 {name}"]
    assert says_nothing(answered(view, f"_sql._tcp.{name}", "A"))
    assert says_nothing(answered(view, f"_udp.{name}", "SRV"))
    for wrong in ("_sql._udp", "_nothing._tcp", "_._tcp", "_sql._tcp._tcp", "_sql", "sql._tcp", "x"):
        assert is_missing(answered(view, f"{wrong}.{name}", "SRV"))


def test_the_address_leads_back_to_the_first_form(view: DnsView) -> None:
    first = "db.default.external-services.cluster.local"
    assert values(answered(view, "7.192.254.169.in-addr.arpa", "PTR", SHOP)) == [f"PTR {first}"]
    digits = ".".join(reversed(f"{0xFD7461726D63FFFC:016x}{7:016x}"))
    found = answered(view, f"{digits}.ip6.arpa", "PTR")
    assert values(found) == ["PTR six.default.external-services.cluster.local"]
    assert is_missing(answered(view, "8.192.254.169.in-addr.arpa", "PTR"))


def test_before_it_has_an_address_it_exists_without_data(view: DnsView) -> None:
    for name in (
        "waiting.default.external-services",
        "waiting.external-services",
        "_sql._tcp.waiting.external-services",
    ):
        for kind in ("A", "AAAA", "SRV", "ANY"):
            assert says_nothing(answered(view, f"{name}.cluster.local", kind))


def test_names_above_exist_and_others_do_not(view: DnsView) -> None:
    for name in ("external-services", "external-services.svc", "default.external-services"):
        assert says_nothing(answered(view, f"{name}.cluster.local"))
    for name in (
        "db.nowhere.external-services",
        "nothing.external-services",
        "nothing.external-services.svc",
        "nothing.default.external-services",
        "db.default.external-services.svc",
        "x.db.default.external-services",
        "external-services.external-services",
    ):
        assert is_missing(answered(view, f"{name}.cluster.local"))


def test_the_short_name_is_that_of_the_clients_own_namespace(view: DnsView) -> None:
    view.put_external(("attic", "db"), external("169.254.192.8", networks=(HOME, SHOP), day=3))
    view.put_external(("shop", "late"), external("169.254.192.9", networks=(HOME,), day=9))
    short = "db.external-services.cluster.local"
    assert values(answered(view, short)) == ["A 169.254.192.7"], "although attic has source pods here"
    assert values(answered(view, short, "A", "attic/default")) == ["A 169.254.192.8"], "although default's is older"
    assert is_missing(answered(view, "late.external-services.cluster.local", "A", "attic/default"))
    view.put_external(("default", "db"), None)
    assert values(answered(view, short)) == ["A 169.254.192.8"], "its source pods here grant access"


def test_of_several_that_are_granted_the_oldest_has_the_short_name(view: DnsView) -> None:
    view.put_external(("attic", "db"), external("169.254.192.8", networks=(SHOP,), day=3))
    short = "db.external-services.cluster.local"
    assert values(answered(view, short, "A", SHOP)) == ["A 169.254.192.7"]
    view.put_external(("default", "db"), external("169.254.192.7", networks=(SHOP,), day=9))
    assert values(answered(view, short, "A", SHOP)) == ["A 169.254.192.8"], "the recreated one is younger"
    view.put_external(("attic", "db"), external("169.254.192.8", day=3))
    assert values(answered(view, short, "A", SHOP)) == ["A 169.254.192.7"], "attic no longer has source pods here"


def test_an_external_service_elsewhere_does_not_take_a_name_of_a_service(view: DnsView) -> None:
    view.put_service(("external-services", "late"), ServiceRecord(("10.96.0.9",)))
    view.put_external(("attic", "late"), external("169.254.192.8"))
    client = "external-services/default"
    assert values(answered(view, "late.external-services.svc.cluster.local", "A", client)) == ["A 10.96.0.9"]


def test_a_service_and_an_instance_keep_their_names(view: DnsView) -> None:
    view.put_service(("default", "external-services"), ServiceRecord(("10.96.0.9",)))
    view.put_service(("default", "db"), ServiceRecord(("10.96.0.10",)))
    place = NetworkAddress(HOME, "10.128.0.2")
    view.put_member(("default", "external-services"), "db", InstanceRecord((place,), ready=True))
    assert values(answered(view, "external-services.default.svc.cluster.local")) == ["A 10.96.0.9"]
    assert values(answered(view, "db.default.svc.cluster.local")) == ["A 10.96.0.10"]
    assert values(answered(view, "db.external-services.default.inst.cluster.local")) == ["A 10.128.0.2"]
    assert values(answered(view, "db.external-services.cluster.local")) == ["A 169.254.192.7"]
