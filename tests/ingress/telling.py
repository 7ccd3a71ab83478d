"""Servers inside a network namespace that tell each caller its address, and calls that stay open."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from tarmac.datapath.linux import namespaces

PORT = 8001
_TIMEOUT = 3.0

Protocol = Literal["TCP", "UDP"]
Address = tuple[str, int]


@contextmanager
def telling(namespace: Path) -> Generator[None]:
    """Answer every TCP connection and datagram at the port until the block ends."""
    with ExitStack() as stack:
        with namespaces.inside(namespace):
            listening = stack.enter_context(socket.create_server(("0.0.0.0", PORT), backlog=64))
            datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            datagrams.bind(("0.0.0.0", PORT))
        for each in (listening, datagrams):
            each.settimeout(0.2)
        over = threading.Event()
        threads = [
            threading.Thread(target=_accept, args=(listening, over), daemon=True),
            threading.Thread(target=_answer, args=(datagrams, over), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(5)


def _accept(listening: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        try:
            made, peer = listening.accept()
        except TimeoutError:
            continue
        threading.Thread(target=_serve, args=(made, peer), daemon=True).start()


def _serve(made: socket.socket, peer: Address) -> None:
    with made:
        try:
            while made.recv(100):
                made.sendall(_told(peer))
        except OSError:
            return


def _answer(datagrams: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        try:
            _, peer = datagrams.recvfrom(100)
            datagrams.sendto(_told(peer), peer)
        except TimeoutError:
            continue


def _told(peer: Any) -> bytes:
    return f"{peer[0]} {peer[1]}".encode()


class Call:
    """A call from a namespace, which can ask repeatedly for its own address as the server sees it."""

    def __init__(self, namespace: Path, address: str, protocol: Protocol, port: int) -> None:
        self.protocol = protocol
        with namespaces.inside(namespace):
            kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
            self._socket = socket.socket(socket.AF_INET, kind)
        self._socket.settimeout(_TIMEOUT)
        try:
            self._socket.connect((address, port))
        except BaseException:
            self._socket.close()
            raise
        self.own: Address = self._socket.getsockname()

    def ask(self) -> Address | None:
        """Return the address that the server sees; None without a response."""
        try:
            self._socket.send(b"?")
            address, port = self._socket.recv(100).decode().split()
        except (OSError, ValueError):
            return None
        return address, int(port)

    def close(self) -> None:
        self._socket.close()
