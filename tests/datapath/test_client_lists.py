"""Source ranges of Services: ports with equal ranges share one list, so elements are ports plus ranges."""

from __future__ import annotations

from tarmac.datapath.linux.ruleset import FilledTable
from tarmac.datapath.linux.tables.ingress import IngressTables, ServedAddress, ServedPort, entering

RANGES = tuple(f"198.51.{number // 250}.{number % 250}/32" for number in range(0, 2000, 2))
OTHER = ("203.0.113.0/24",)


def state(*lists: tuple[str, ...], ports: int = 2) -> FilledTable:
    addresses = [
        ServedAddress(
            f"192.0.2.{number}",
            number,
            ports=tuple(ServedPort("TCP", port, clients=each) for port in range(1, ports + 1)),
        )
        for number, each in enumerate(lists, 1)
    ]
    return entering(IngressTables("198.18.0.1", ("240.0.0.1", "fd74::1"), addresses))[0]


def sizes(table: FilledTable) -> dict[str, int]:
    """Return the numbers of elements of the sets that have some."""
    return {name: len(each) for name, each in table.elements.items() if isinstance(each, dict) and each}


def test_elements_are_ports_plus_ranges_and_not_their_product() -> None:
    found = sizes(state(RANGES, ports=1000))
    assert (found["restricted4"], found["allowed4"]) == (1000, 1000)


def test_services_with_equal_ranges_share_a_list() -> None:
    assert sizes(state(RANGES, tuple(RANGES)))["allowed4"] == len(RANGES)
    assert sizes(state(RANGES, OTHER))["allowed4"] == len(RANGES) + 1


def test_another_list_gets_another_number_so_its_ports_move_in_one_transaction() -> None:
    (commands,) = state((*RANGES, "203.0.113.9/32")).changes(state(RANGES))
    changed = [line.split()[0:6] for line in commands.splitlines() if "restricted4" in line]
    assert [words[0] for words in changed] == ["delete", "add"]


def test_a_list_without_ranges_of_the_family_admits_no_client() -> None:
    found = sizes(state(()))
    assert found["restricted4"] == 2
    assert "allowed4" not in found


def test_nodes_use_ports_whose_ranges_have_them() -> None:
    assert sizes(state(("198.18.0.0/15",), OTHER))["insiders4"] == 2
