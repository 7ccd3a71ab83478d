"""A UDP port of nodes has one purpose, and pods cannot send to ports that end at nodes."""

from __future__ import annotations

from tarmac.api.networking import ports


def test_ports_have_one_purpose_each() -> None:
    numbers = {name: value for name, value in vars(ports).items() if isinstance(value, int)}
    assert len(numbers) > 6
    assert len(set(numbers.values())) == len(numbers), numbers
    assert set(numbers.values()) - set(ports.NODES_OWN) == {ports.PROBE_PORT}
