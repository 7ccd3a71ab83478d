"""Tables of slots as parts of one map: shared when equal, and written only where they changed."""

from __future__ import annotations

from tarmac.datapath.linux.ruleset import FilledTable
from tarmac.datapath.linux.tables.ingress import IngressTables, ServedAddress, ServedPort, entering
from tarmac.datapath.linux.tables.slots import SLOTS, SlotTables

FIRST, SECOND = tuple([0x10001] * SLOTS), tuple([0x10001, 0x10002] * (SLOTS // 2))


def state(*marks: tuple[int, ...]) -> FilledTable:
    addresses = [
        ServedAddress(f"192.0.2.{number}", number, ports=(ServedPort("TCP", 80, each), ServedPort("TCP", 81, each)))
        for number, each in enumerate(marks, 1)
    ]
    return entering(IngressTables("198.18.0.1", ("240.0.0.1", "fd74::1"), addresses))[0]


def test_ports_with_equal_slots_share_a_table() -> None:
    tables = SlotTables()
    assert tables.number(FIRST) == tables.number(tuple(FIRST))
    assert tables.number(SECOND) != tables.number(FIRST)
    assert len(tables.elements) == 2
    assert all(len(each.content()) == SLOTS for each in tables.elements.values())


def test_few_marks_have_equal_shares_of_the_slots() -> None:
    tables = SlotTables()
    tables.number((7, 8))
    (only,) = tables.elements.values()
    assert sorted(only.content().values()) == ["0x7"] * (SLOTS // 2) + ["0x8"] * (SLOTS // 2)


def test_a_change_writes_the_changed_table_alone_and_its_users_in_one_transaction() -> None:
    before, after = state(FIRST, SECOND), state(FIRST, (*FIRST[:-1], 0x10003))
    (commands,) = after.changes(before)
    slots = [line for line in commands.splitlines() if " slots " in line]
    assert [line.split()[0] for line in slots] == ["delete", "add"]
    assert [line.count(" . ") for line in slots] == [SLOTS, SLOTS]
    users = [line for line in commands.splitlines() if "tables4" in line]
    assert len(users) == 2
    assert all("192.0.2.1 " not in line for line in users), "the first address has the table that it had"


def test_an_address_that_goes_takes_its_table_along_unless_it_is_shared() -> None:
    assert " slots " not in "".join(state(FIRST).changes(state(FIRST, FIRST)))
    assert "delete element inet tarmac-in slots" in "".join(state(FIRST).changes(state(FIRST, SECOND)))
    assert list(state(FIRST).changes(state(FIRST))) == []


def test_a_replacement_writes_all_parts_of_the_map() -> None:
    written = state(FIRST, SECOND).replacement()
    assert written.count("add element inet tarmac-in slots {") == 2
    assert "#" not in written
