"""Two ends of a connection, each a process in a network namespace: `python -m benchmarks.wire serve|stream|ping`.

serve ADDRESS PORT              answers both clients, until it is ended
stream ADDRESS PORT SECONDS     prints the bits per second that arrived
ping ADDRESS PORT COUNT         prints the median of the round trips, in microseconds
"""

from __future__ import annotations

import socket
import statistics
import struct
import sys
import threading
from time import perf_counter

_PIECE = 1 << 18


def _serve(address: str, port: int) -> None:
    listening = socket.create_server((address, port))
    print("ready", flush=True)
    while True:
        accepted, _ = listening.accept()
        threading.Thread(target=_answer, args=(accepted,), daemon=True).start()


def _answer(client: socket.socket) -> None:
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if client.recv(1) == b"s":
            buffer, total, began = bytearray(_PIECE), 0, perf_counter()
            while got := client.recv_into(buffer):
                total += got
            client.sendall(struct.pack("=Qd", total, perf_counter() - began))
        else:
            while data := client.recv(64):
                client.sendall(data)


def _stream(address: str, port: int, seconds: float) -> float:
    with socket.create_connection((address, port), 5) as client:
        client.settimeout(30)
        client.sendall(b"s")
        data, until = bytes(_PIECE), perf_counter() + seconds
        while perf_counter() < until:
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        total, took = struct.unpack("=Qd", client.recv(16, socket.MSG_WAITALL))
    return total * 8 / took


def _ping(address: str, port: int, count: int) -> float:
    with socket.create_connection((address, port), 5) as client:
        client.settimeout(5)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(b"p")
        times: list[float] = []
        for _ in range(count):
            began = perf_counter()
            client.sendall(b"?")
            client.recv(1)
            times.append(perf_counter() - began)
    return statistics.median(times) * 1e6


def main() -> None:
    """Run one of the three."""
    what, address, port, *more = sys.argv[1:]
    if what == "serve":
        _serve(address, int(port))
    elif what == "stream":
        print(_stream(address, int(port), float(more[0])))
    else:
        print(_ping(address, int(port), int(more[0])))


if __name__ == "__main__":
    main()
