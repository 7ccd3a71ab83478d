"""Attacks that are made twice: with their defence, and without it.

With the defence the attack must fail; without it, it must succeed. So a test of this kind cannot pass for another
reason than the one it names.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tarmac.datapath.linux.nftables import Nftables

TWICE = pytest.mark.parametrize("defended", [True, False], ids=["defended", "without its defence"])
_IN_A_SOAK = pytest.param(False, marks=pytest.mark.soak(minutes=0.1, only=True))
PACKETS_TWICE = pytest.mark.parametrize("defended", [True, _IN_A_SOAK], ids=["defended", "without its defence"])
"""For attacks with real packets: only `make soak` makes those without their defence, to show that the attack works."""


class Rule(NamedTuple):
    """Rules of nftables, by their chain and by words in them; without words all of the chain's."""

    chain: str
    words: str = ""


@contextmanager
def without(*defences: Rule, unless: bool) -> Generator[None]:
    """Leave rules out of all tables that are written meanwhile. The block must write these rules.

    `unless`: keep them, and only check that they are written.
    """
    met: set[Rule] = set()
    run = Nftables._run

    def filtered(nftables: Nftables, commands: str) -> bytes:
        kept = "".join(_kept(commands, defences, met))
        return run(nftables, commands if unless else kept)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Nftables, "_run", filtered)
        yield
    assert met == set(defences), f"{set(defences) - met} was in no table: the test says nothing about it"


def _kept(commands: str, defences: Sequence[Rule], met: set[Rule]) -> Iterator[str]:
    chain = ""
    for line in commands.splitlines(keepends=True):
        words = line.split()
        if words[:1] == ["chain"]:
            chain = words[1]
        elif words == ["}"]:
            chain = ""
        found = [each for each in defences if each.chain == chain and each.words in line]
        if found and words[0] not in ("chain", "type"):
            met.update(found)
        else:
            yield line
