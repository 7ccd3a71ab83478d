"""Sums of element counters never decrease, also when elements are removed or rewritten."""

from __future__ import annotations

from dataclasses import replace

from tarmac.datapath.egress import Entrance, Exit, GatewayTraffic, SourceAddress, TranslatedConnection
from tarmac.datapath.linux.egress.metering import PORTS, TrafficMeter

SOURCE, TARGET, ONE, TWO = "192.0.2.5", "203.0.113.9", "240.0.0.1", "240.0.0.2"
EXITS = (Exit(ONE, "n1", TARGET, "TCP", 80, "a/db"), Exit(TWO, "n2", TARGET, "TCP", 80, "a/db"))
ADDRESS = SourceAddress(SOURCE, 1, (), exits=EXITS, entrances=(Entrance(TARGET, "UDP", 53, ONE, "n1", service="a/db"),))


def meter(*sources: SourceAddress) -> TrafficMeter:
    made = TrafficMeter()
    made.know(sources)
    return made


def sums(found: TrafficMeter, inward: bool = False) -> tuple[int, int]:
    (one,) = [each for each in found.carriage([SOURCE], ()).traffic if each.inward == inward]
    return one.connections, one.bytes


def test_only_differences_since_the_last_reading_are_added() -> None:
    found = meter(ADDRESS)
    for packets, size in ((3, 100), (5, 100), (5, 400)):
        found.read("began4", {(ONE,): (packets, 60 * packets)})
        found.read("sent4", {(ONE,): (9, size), (TWO,): (1, 7)})
    assert sums(found) == (5, 407)
    found.read("in4", {(TARGET, SOURCE, 17, 53): (2, 99), (TARGET, SOURCE, 6, 53): (1, 1)})
    found.read("called4", {(ONE,): (4, 50)})
    assert sums(found, inward=True) == (2, 50)


def test_elements_that_go_and_come_back_and_tables_written_anew_begin_at_nothing() -> None:
    found = meter(ADDRESS)
    found.read("began4", {(ONE,): (3, 0), (TWO,): (10, 0)})
    less = replace(ADDRESS, exits=EXITS[:1])
    assert found.loses([less])
    found.know([less])
    found.read("began4", {(ONE,): (4, 0)})
    assert not found.loses([ADDRESS]), "new elements have no count to lose"
    found.know([ADDRESS])
    found.read("began4", {(ONE,): (4, 0), (TWO,): (11, 0)})
    assert sums(found)[0] == 4 + 10 + 11
    found.restart()
    found.read("began4", {(ONE,): (6, 0)})
    assert sums(found)[0] == 25 + 6
    found.read("began4", {(ONE,): (1, 0)})  # another program reset it
    assert sums(found)[0] == 31 + 1


def test_sums_wait_for_those_who_use_an_address_no_more_but_not_for_all_of_them() -> None:
    found = meter(ADDRESS)
    found.read("began4", {(ONE,): (3, 0)})
    found.know([])
    assert found.carriage([], ()) == GatewayTraffic()
    found.know([ADDRESS])
    assert sums(found)[0] == 3
    for number in range(1_100):
        own = Exit(ONE, "n1", TARGET, "TCP", 80, f"a/db{number}")
        found.know([SourceAddress(SOURCE, 1, (), exits=(own,))])
        found.restart()
        found.read("began4", {(ONE,): (1, 0)})
        assert len(found.carriage([SOURCE], ()).traffic) == 1
    found.know([ADDRESS])
    assert sums(found)[0] == 0


def test_live_connections_and_the_fullest_port_are_those_of_carried_addresses() -> None:
    found = meter(ADDRESS)
    out = TranslatedConnection("TCP", (ONE, 5), (TARGET, 80), (TARGET, 80), (SOURCE, 5))
    back = TranslatedConnection("UDP", (TARGET, 9), (SOURCE, 53), (ONE, 53), (TARGET, 9))
    strange = TranslatedConnection("TCP", ("198.51.100.1", 5), (TARGET, 80), (TARGET, 80), ("198.51.100.1", 5))
    tally = [
        (out, 7),
        (replace(out, source=(TWO, 5)), 4),
        (replace(out, meant=(TARGET, 81)), 5),
        (back, 2),
        (strange, 9),
    ]
    shown = found.carriage([SOURCE], tally)
    assert [(each.inward, each.live) for each in shown.traffic] == [(False, 16), (True, 2)]
    assert shown.port_use == {SOURCE: 11 / PORTS}, "per port of the server, over all pods"
    assert found.carriage([], tally) == GatewayTraffic(), "it did not carry the address"
