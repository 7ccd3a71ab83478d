"""Measures interruptions of traffic between two network namespaces, and the source addresses that the server sees.

The client process sends numbered datagrams, and requests over a connection that stays open; the server process answers
each with the source that it sees. A gap is the time from the first of consecutive unanswered datagrams to the last, and
one pause: a busy machine sends fewer datagrams, which makes no gap.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EVERY = 0.005
_TALK_EVERY = 0.05
_ANSWERED_WITHIN = 1.0  # after the last request


@dataclass
class Found:
    """The client's result: the longest gap in seconds, and the sources that the server saw."""

    gap: float
    sent: int
    lost: int
    seen: set[str]
    talked: int  # answers over the connection
    broken: str  # why the connection ended, if it did
    ports: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])  # the connection's sources


class Meter:
    """The client process, which sends until `found`."""

    def __init__(self, namespace: Path, address: str, port: int) -> None:
        self._process = _process(namespace, "ask", address, port)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begins\n", "the server does not answer"

    def found(self) -> Found:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        out, _ = self._process.communicate(timeout=30)
        told: dict[str, Any] = json.loads(out)
        sources = {tuple(each) for each in told.pop("ports")}
        return Found(seen=set(told.pop("seen")), ports=sources, **told)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def answering(namespace: Path, address: str, port: int) -> Generator[None]:
    """Answer at a server's address and port."""
    process = _process(namespace, "answer", address, port)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        yield
    finally:
        process.kill()
        process.communicate()


@contextmanager
def measuring(namespace: Path, address: str, port: int) -> Generator[Meter]:
    """Send from a namespace."""
    meter = Meter(namespace, address, port)
    try:
        yield meter
    finally:
        meter.kill()


def _process(namespace: Path, *words: object) -> subprocess.Popen[str]:
    command = ["nsenter", f"--net={namespace}", sys.executable, "-m", "tests.support.gaps", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def answer(address: str, port: int) -> None:
    """Answer every client, for ever."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    selector = selectors.DefaultSelector()
    with (
        socket.socket(family, socket.SOCK_DGRAM) as datagrams,
        socket.create_server((address, port), family=family) as server,
    ):
        datagrams.bind((address, port))
        selector.register(datagrams, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        print("begins", flush=True)
        while True:
            for key, _ in selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready is datagrams:
                    question, peer = datagrams.recvfrom(100)
                    with suppress(OSError):
                        datagrams.sendto(question + b" " + peer[0].encode(), peer)
                elif ready is server:
                    selector.register(server.accept()[0], selectors.EVENT_READ)
                else:
                    _answer_one(selector, ready)


def _answer_one(selector: selectors.BaseSelector, talk: socket.socket) -> None:
    try:
        if talk.recv(100):
            source = talk.getpeername()
            talk.sendall(f"{source[0]} {source[1]}\n".encode())
            return
    except OSError:
        pass
    selector.unregister(talk)
    talk.close()


class _Asking:
    def __init__(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.datagrams = socket.socket(family, socket.SOCK_DGRAM)
        self.datagrams.connect((address, port))
        self.datagrams.setblocking(False)
        self.talk = socket.create_connection((address, port), timeout=10)
        self.talk.setblocking(False)
        self.sent: list[float] = []
        self.answered: set[int] = set()
        self.seen: set[str] = set()
        self.heard = b""
        self.broken = ""

    def ask(self) -> None:
        with suppress(OSError):  # an error of an earlier datagram: this one is lost
            self.datagrams.send(str(len(self.sent)).encode())
        self.sent.append(time.monotonic())

    def say(self) -> None:
        if not self.broken:
            try:
                self.talk.send(b"?\n")
            except BlockingIOError:
                pass
            except OSError as error:
                self.broken = repr(error)

    def hear(self) -> None:
        with suppress(OSError):
            while True:
                number, source = self.datagrams.recv(200).split()
                self.answered.add(int(number))
                self.seen.add(source.decode())
        with suppress(BlockingIOError):
            try:
                heard = self.talk.recv(4096)
                self.heard += heard
                self.broken = self.broken or ("" if heard else "it was closed")
            except ConnectionError as error:
                self.broken = repr(error)

    def told(self) -> dict[str, Any]:
        lines = [line.split() for line in self.heard.decode().splitlines()]
        numbers = sorted(self.answered)
        ends = [-1, *numbers, len(self.sent)]
        gaps = [
            self.sent[after - 1] - self.sent[before + 1] + EVERY
            for before, after in pairwise(ends)
            if after > before + 1
        ]
        return {
            "gap": max(gaps, default=0.0), "sent": len(self.sent), "lost": len(self.sent) - len(numbers),
            "seen": sorted(self.seen), "talked": len(lines), "broken": self.broken,
            "ports": sorted({(each[0], int(each[1])) for each in lines}),
        }  # fmt: skip


def ask(address: str, port: int) -> None:
    """Send until SIGTERM, then print the result."""
    asking, ending = _Asking(address, port), list[bool]()
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    print("begins", flush=True)
    selector = selectors.DefaultSelector()
    selector.register(asking.datagrams, selectors.EVENT_READ)
    ask_at = say_at = time.monotonic()
    while not ending:
        now = time.monotonic()
        if now >= ask_at:
            asking.ask()
            ask_at = now + EVERY
        if now >= say_at:
            asking.say()
            say_at = now + _TALK_EVERY
        selector.select(max(0.0, ask_at - time.monotonic()))
        asking.hear()
    over = time.monotonic() + _ANSWERED_WITHIN
    while time.monotonic() < over and len(asking.sent) - 1 not in asking.answered:
        selector.select(0.05)
        asking.hear()
    asking.hear()
    print(json.dumps(asking.told()), flush=True)


if __name__ == "__main__":
    {"ask": ask, "answer": answer}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
