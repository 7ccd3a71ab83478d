"""Constant traffic of a planet: clients in every city call a Service, each instance elsewhere and a server outside.

Every call opens a connection of its own, as most clients of a service do, so a call fails on its own and says why.
Clients are threads inside the network namespaces of pods: they need no agent, and survive the faults under test.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tarmac.datapath.linux import namespaces

INTERVAL = 0.2  # seconds between two calls of one client
TIMEOUT = 2.0  # of one call: a lost SYN is sent again after 1 s
Kind = Literal["service", "instance", "outside"]


@dataclass(frozen=True)
class Target:
    """One client and the address it calls. Cities are names of nodes; a Service is in none."""

    kind: Kind
    client: str
    city: str
    address: str
    port: int
    question: bytes
    answer: bytes


@dataclass(frozen=True)
class Call:
    """One call; `error` is empty when it succeeded."""

    target: Target
    began: float
    seconds: float
    error: str

    def concerns(self, city: str) -> bool:
        """Return true if the call starts or ends in the city."""
        return city in (self.target.client, self.target.city)


class Traffic:
    """Calls of all clients so far."""

    def __init__(self) -> None:
        self._calls: list[Call] = []  # appending is atomic, so threads share it without a lock
        self._stop = threading.Event()

    def between(self, began: float, ended: float) -> list[Call]:
        """The calls that began in a span of monotonic time."""
        return [call for call in self._calls if began <= call.began < ended]

    def failures_since(self, began: float) -> list[Call]:
        """Calls of a span up to now that failed."""
        return [call for call in self._calls if call.error and call.began >= began]

    def settle(self, quiet: float = 4.0, timeout: float = 90.0) -> None:
        """Wait until no call has failed for a while."""
        deadline = time.monotonic() + timeout
        while recent := self.failures_since(time.monotonic() - quiet - TIMEOUT):
            assert time.monotonic() < deadline, f"calls still fail: {recent[-1]}"
            time.sleep(0.2)

    def client(self, namespace: Path, target: Target) -> threading.Thread:
        """A thread that calls a target from a namespace until the traffic ends."""

        def run() -> None:
            namespaces.enter(str(namespace))  # this thread only, and it never leaves
            while not self._stop.wait(INTERVAL):
                began = time.monotonic()
                error = _call(target)
                self._calls.append(Call(target, began, time.monotonic() - began, error))

        return threading.Thread(target=run, name=f"{target.client} to {target.address}", daemon=True)

    def stop(self) -> None:
        """Let every client end."""
        self._stop.set()


@contextmanager
def traffic(clients: Sequence[tuple[Path, Target]]) -> Generator[Traffic]:
    """Call all targets until the block ends."""
    made = Traffic()
    threads = [made.client(namespace, target) for namespace, target in clients]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.stop()
        for thread in threads:
            thread.join(TIMEOUT * 2)


def _call(target: Target) -> str:
    try:
        with socket.create_connection((target.address, target.port), TIMEOUT) as connection:
            connection.settimeout(TIMEOUT)
            connection.sendall(target.question)
            answer = connection.recv(4096)
    except OSError as error:
        return error.strerror or type(error).__name__
    return "" if target.answer in answer else f"answered {answer[:40]!r}"


@dataclass(frozen=True)
class Row:
    """The calls of one kind during one fault, from clients inside or outside the city that it concerns."""

    fault: str
    kind: Kind
    clients: str
    calls: int
    failures: Sequence[Call]
    slowest: float  # seconds, of the calls that were answered

    @property
    def span(self) -> float:
        """Seconds from the first failure to the last."""
        return self.failures[-1].began - self.failures[0].began if self.failures else 0.0


def rows(fault: str, calls: Iterable[Call], city: str = "") -> Iterator[Row]:
    """Yield a row for each kind of call; with a city, one for its clients and one for all other clients."""
    found = sorted(calls, key=lambda each: each.began)
    sides = {city: [each for each in found if each.target.client == city]} if city else {}
    sides["elsewhere" if city else "all"] = [each for each in found if each.target.client != city]
    kinds: tuple[Kind, ...] = ("service", "instance", "outside")
    for clients, of_side in sides.items():
        for kind in kinds:
            of_kind = [each for each in of_side if each.target.kind == kind]
            failures = [each for each in of_kind if each.error]
            slowest = max((each.seconds for each in of_kind if not each.error), default=0.0)
            yield Row(fault, kind, clients, len(of_kind), failures, slowest)


def table(found: Iterable[Row], explain: Callable[[Row], str]) -> str:
    """A table of Markdown."""
    lines = [
        "| fault | clients | calls to | calls | failed | first to last | slowest answer | cause |",
        "|---" * 8 + "|",
    ]
    for row in found:
        span, cause = (f"{row.span:.1f} s", explain(row)) if row.failures else ("–", "–")
        counts = f"{row.calls} | {len(row.failures)} | {span} | {row.slowest * 1000:.0f} ms"
        lines.append(f"| {row.fault} | {row.clients} | {row.kind} | {counts} | {cause} |")
    return "\n".join(lines)
