"""A message about one address neither reads nor writes the state of another one on the same nodes.

So a model of one address suffices: nodes with several addresses behave as a product of models. Addresses share the
crashes, pauses and starts of their nodes, which the model allows for each address at any time, and joint renewals:
test_the_code_and_the_model follows their digest and expiry.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tarmac.decide.egress.lease import joint as joints
from tarmac.decide.egress.lease import voter as voting
from tarmac.decide.egress.lease.messages import Ask, Grant, Message, Refuse, Release, Send, Together, Vacant
from tests.decide.egress import leases
from tests.decide.egress.leases import ADDRESS, SECOND, World
from tests.decide.egress.test_the_code_and_the_model import live_through

OF_ADDRESSES = {"_promises", "_candidates", "_single"}
ABOUT_ONE_ADDRESS = (Ask, Grant, Refuse, Release, Vacant)


class Leak(AssertionError):
    """The handler of a message accesses another address."""


class Watch:
    """`only` is the address of the message in progress; empty outside. `touched` counts accesses meanwhile."""

    def __init__(self) -> None:
        self.only = ""
        self.touched = 0

    def check(self, address: object) -> None:
        self.touched += bool(self.only)
        if self.only and address != self.only:
            raise Leak(f"a message about {self.only} touches {address}")


class ByAddress(dict[str, Any]):
    """A dictionary by address; the handler of a message may access one entry."""

    def __init__(self, watch: Watch, content: Mapping[str, Any] | None = None) -> None:
        super().__init__(content or {})
        self._watch = watch

    def __getitem__(self, key: str) -> Any:
        self._watch.check(key)
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._watch.check(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._watch.check(key)
        super().__delitem__(key)

    def __contains__(self, key: object) -> bool:
        self._watch.check(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._watch.check(key)
        return super().get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._watch.check(key)
        return super().setdefault(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        self._watch.check(key)
        return super().pop(key, *default)

    def __iter__(self) -> Iterator[str]:
        self._watch.check("all")
        return super().__iter__()

    def keys(self) -> Any:
        self._watch.check("all")
        return super().keys()

    def values(self) -> Any:
        self._watch.check("all")
        return super().values()

    def items(self) -> Any:
        self._watch.check("all")
        return super().items()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Watch dictionaries by address in voters, groups and joints, and set `only` in nodes."""
    watch = Watch()

    class WatchedVoter(voting.Voter):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, ByAddress(watch, value) if name in OF_ADDRESSES else value)

    class WatchedGroup(voting._Group):
        def __init__(self) -> None:
            super().__init__(ByAddress(watch))

    class WatchedJoint(joints.Joint):
        def __init__(self) -> None:
            super().__init__()
            self.members = ByAddress(watch)

    class WatchedNode(leases.Node):
        def receive(self, sender: str, message: Message | Together) -> None:
            watch.only = message.address if isinstance(message, ABOUT_ONE_ADDRESS) else ""
            try:
                super().receive(sender, message)
            finally:
                watch.only = ""

        def act(self, effects: Any) -> None:
            only, watch.only = watch.only, ""  # the test's own records cover all addresses
            super().act(effects)
            watch.only = only

    monkeypatch.setattr(leases, "Voter", WatchedVoter)
    monkeypatch.setattr(voting, "_Group", WatchedGroup)
    monkeypatch.setattr(joints, "Joint", WatchedJoint)
    monkeypatch.setattr(leases, "Node", WatchedNode)
    return watch


def histories(number: int) -> None:
    for seed in range(number):
        dice = random.Random(f"weather {seed}")
        weather = {"loss": dice.choice([0.0, 0.1, 0.4]), "delay": 0.02, "late": dice.choice([0.0, 0.1])}
        live_through(World(seed, 3, addresses=(ADDRESS, SECOND), **weather), dice, 25)


def test_a_message_about_one_address_touches_no_other_one(watch: Watch) -> None:
    histories(10)
    assert watch.touched > 10_000


def test_a_voter_that_looks_at_another_address_is_found(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = voting.Voter.asked

    def curious(self: voting.Voter, sender: str, ask: Ask, now: float) -> Send:
        promised = [each for each in self._promises.values() if each.holder == sender]
        return asked(self, sender, ask, now + 0.001 * len(promised))

    monkeypatch.setattr(voting.Voter, "asked", curious)
    with pytest.raises(Leak):
        histories(1)
