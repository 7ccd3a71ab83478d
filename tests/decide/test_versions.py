"""Compatibility of versions."""

from __future__ import annotations

import pytest

from tarmac.decide.versions import against_upgrade, all_are, joins


@pytest.mark.parametrize(
    ("own", "server", "told"),
    [
        ("0.2.0", "0.2.5", ""),
        ("0.1.9", "0.2.0", ""),
        ("0.1.0", "0.3.0", "install a version at most one minor behind"),
        ("0.3.0", "0.2.0", "upgrade the server first"),
        ("1.0.0", "2.0.0", "install a version at most one minor behind"),
        ("a clone", "0.2.0", ""),
    ],
)
def test_a_node_may_be_one_minor_version_behind_its_server_and_never_ahead(own: str, server: str, told: str) -> None:
    assert joins(own, server).endswith(told)
    assert bool(joins(own, server)) == bool(told)


def test_a_format_is_written_once_all_processes_can_read_it() -> None:
    assert all_are("0.2.0", {"a": "0.2.1", "b": "0.3.0"})
    assert not all_are("0.2.0", {"a": "0.2.0", "b": "0.1.9"})
    assert not all_are("0.2.0", {"a": ""}), "a component without a version is the oldest"
    assert all_are("0.2.0", {})


def test_everything_that_stands_against_an_upgrade_is_told() -> None:
    fitting = {"s1": "0.2.0", "s2": "0.3.0"}, {"n1": "0.2.4", "n2": "0.3.0"}, {"c1": "0.2.1"}
    assert list(against_upgrade("0.3.0", *fitting)) == []
    servers = {"s1": "0.1.0", "s2": "0.4.0", "s3": "", "s4": "mine"}
    agents = {"n1": "0.1.0", "n2": "0.5.0", "n3": ""}
    controllers = {"c1": "0.1.7", "c2": "0.5.0"}
    found = list(against_upgrade("0.3.0", servers, agents, controllers))
    assert [(what, text.split()[0]) for what, text in found] == [
        ("server", "s1"), ("server", "s2"), ("server", "s3"), ("server", "s4"),
        ("agent", "n1"), ("agent", "n2"), ("agent", "n3"), ("controllers", "c1"), ("controllers", "c2"),
    ]  # fmt: skip
    assert "go to the next minor version first" in found[0][1]
    assert found[2][1] == "s3 has tarmac 0.1; go to the next minor version first, one at a time"
    assert "too old for servers of 0.3.0" in found[4][1]
    assert found[7][1] == "c1 has tarmac 0.1.7, too old for servers of 0.3.0; upgrade it first"
    assert "newer than its servers" in found[8][1]
    [(what, text)] = against_upgrade("next", servers, agents, controllers)
    assert (what, "is no version" in text) == ("version", True)


def test_the_version_that_did_not_say_which_it_was_is_upgraded_to_the_first_that_does() -> None:
    assert list(against_upgrade("0.2.0", {"s": ""}, {"n": ""}, {"c": ""})) == []
