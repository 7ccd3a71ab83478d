"""Ports for servers that tests start.

They lie below the kernel's range for outgoing connections: the kernel may give a port of that range to a connection
before the server has bound it.
"""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 15_000, 32_000
_draw = random.SystemRandom()  # two workers of one run must not draw the same numbers


def free_ports(count: int) -> list[int]:
    """Return loopback ports on which no process listens."""
    found: set[int] = set()
    while len(found) < count:
        port = _draw.randrange(_FIRST, _LAST)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.add(port)
    return list(found)


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]
