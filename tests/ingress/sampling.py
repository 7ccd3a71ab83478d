"""Calls from one network every 10 ms: the answering city of each, and the time without an answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from tarmac.datapath.linux import namespaces

INTERVAL = 0.01
_SETTLED = 10  # calls
_REQUEST = b"GET / HTTP/1.0\r\n\r\n"
_MARK = b"hello from "


class Sample(NamedTuple):
    """A call: its begin and end, and the answering city; empty without an answer."""

    begun: float
    ended: float
    city: str


class Calls:
    """The calls so far, the oldest first."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def settled(self, city: str) -> bool:
        """Return True if a city answered the last calls: then no earlier change is on its way."""
        last = self.samples[-_SETTLED:]
        return len(last) == _SETTLED and all(each.city == city for each in last)

    def longest_failure(self) -> tuple[int, float]:
        """Return the most calls in a row without an answer, and the longest time from an answer to the next one."""
        runs = [len(list(run)) for failed, run in groupby(self.samples, lambda each: not each.city) if failed]
        return max(runs, default=0), longest_gap([each.ended for each in self.samples if each.city])


def longest_gap(times: Sequence[float]) -> float:
    """Return the longest time between two neighbours."""
    return max((other - one for one, other in pairwise(times)), default=0.0)


@contextmanager
def calling(namespace: Path, address: str, timeout: float) -> Generator[Calls]:
    """Call an address from a network during the block; a call without an answer ends after `timeout` seconds."""
    calls, over = Calls(), threading.Event()

    def call() -> None:
        while not over.is_set():
            begun = time.monotonic()
            city = _answer(namespace, address, timeout)
            calls.samples.append(Sample(begun, time.monotonic(), city))
            over.wait(max(0.0, begun + INTERVAL - time.monotonic()))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    try:
        yield calls
    finally:
        over.set()
        thread.join(timeout * 2 + 5)


def _answer(namespace: Path, address: str, timeout: float) -> str:
    with namespaces.inside(namespace):
        asking = socket.socket()
    with asking:
        asking.settimeout(timeout)
        try:
            asking.connect((address, 80))
            asking.sendall(_REQUEST)
            found = b"".join(iter(lambda: asking.recv(4096), b""))
        except OSError:
            return ""
    return found.partition(_MARK)[2][:3].decode()
