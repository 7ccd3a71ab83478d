"""Parses the cgroup files of block I/O, and computes the lines to write to change them. Pure.

Version 1 has a file for each kind of throttle, with a line for each disk: `8:0 1048576`. Version 2 has one, `io.max`,
with a line for each disk: `8:0 rbps=1048576 wbps=max riops=max wiops=max`. Weights are in files that begin with the
weight for every disk (alone on version 1, after the word `default` on version 2), followed by lines for single disks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.decide.qosclasses.blockio import MAX_WEIGHT, MIN_WEIGHT, THROTTLES, Disk, Rates

USUAL_WEIGHT: Final = 100
_WORDS: Final = dict(zip(("rbps", "wbps", "riops", "wiops"), THROTTLES, strict=True))
_MAX: Final = "max"


def read_rates(text: str) -> dict[Disk, int]:
    """Parse a file of version 1: a rate for each disk."""
    pairs = (line.split() for line in text.splitlines())
    return {disk: int(pair[1]) for pair in pairs if len(pair) == 2 and (disk := _disk(pair[0])) is not None}


def rate_changes(now: Rates, wanted: Rates) -> list[str]:
    """Return the lines to write, one at a time. A rate of 0 removes a disk."""
    gone = [disk for disk in now if now[disk] and disk not in wanted]
    changed = [(disk, rate) for disk, rate in wanted.items() if now.get(disk) != rate]
    return [*(f"{_written(disk)} 0" for disk in gone), *(f"{_written(disk)} {rate}" for disk, rate in changed)]


def read_io_max(text: str) -> dict[str, dict[Disk, int]]:
    """Parse `io.max` of version 2: the rates of each kind of throttle."""
    found: dict[str, dict[Disk, int]] = {}
    for line in text.splitlines():
        first, *rest = line.split()
        if (disk := _disk(first)) is None:
            continue
        for word, _, rate in (each.partition("=") for each in rest):
            if word in _WORDS and rate != _MAX:
                found.setdefault(_WORDS[word], {})[disk] = int(rate)
    return found


def io_max_changes(now: Mapping[str, Rates], wanted: Mapping[str, Rates]) -> list[str]:
    """Return the lines to write, one at a time: each sets all rates of one disk."""
    disks = {disk: None for rates in (*now.values(), *wanted.values()) for disk in rates}
    return [io_max_line(disk, wanted) for disk in disks if _about(disk, now) != _about(disk, wanted)]


def io_max_line(disk: Disk, wanted: Mapping[str, Rates]) -> str:
    """Return the `io.max` line of one disk."""
    rates = _about(disk, wanted)
    return " ".join((_written(disk), *(f"{word}={rates.get(name, _MAX)}" for word, name in _WORDS.items())))


def read_weights(text: str) -> tuple[int | None, dict[Disk, int]]:
    """Parse the weight for every disk, and the weights of single disks."""
    usual: int | None = None
    weights: dict[Disk, int] = {}
    for parts in (line.split() for line in text.splitlines()):
        if parts and parts[-1].isdecimal():
            disk = _disk(parts[0]) if len(parts) == 2 else None
            if disk is not None:
                weights[disk] = int(parts[1])
            elif usual is None:
                usual = int(parts[-1])
    return usual, weights


def weight_changes(now: Rates, wanted: Rates) -> list[str]:
    """Return the lines to write for single disks; the word `default` resets a disk to the common weight."""
    gone = [f"{_written(disk)} default" for disk in now if disk not in wanted]
    return gone + [f"{_written(disk)} {weight}" for disk, weight in wanted.items() if now.get(disk) != weight]


def unified_weight(weight: int) -> int:
    """Convert a weight of 10 to 1000 to the scale of `io.weight`, 1 to 10000."""
    return 1 + (weight - MIN_WEIGHT) * 9999 // (MAX_WEIGHT - MIN_WEIGHT)


def _about(disk: Disk, rates: Mapping[str, Rates]) -> dict[str, int]:
    return {name: each[disk] for name, each in rates.items() if disk in each}


def _disk(text: str) -> Disk | None:
    major, colon, minor = text.partition(":")
    return (int(major), int(minor)) if colon and major.isdecimal() and minor.isdecimal() else None


def _written(disk: Disk) -> str:
    return f"{disk[0]}:{disk[1]}"
