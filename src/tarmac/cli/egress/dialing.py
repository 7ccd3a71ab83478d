"""Opens a connection from inside a pod with a tool of its image, and keeps it open for a while.

Nothing is sent over a TCP connection. UDP has no connections, so one datagram with a newline is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

HOLD_SECONDS: Final = 15
"""The connection closes by itself after this, in case the client is gone."""

_PYTHON: Final = (
    "import socket,sys,select;a,p,k=sys.argv[1:];"
    "s=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET,"
    "socket.SOCK_DGRAM if k=='udp' else socket.SOCK_STREAM);"
    f"s.settimeout({HOLD_SECONDS});s.connect((a,int(p)));k=='udp' and s.send(b'\\n');"
    f"select.select([sys.stdin],[],[],{HOLD_SECONDS})"
)
# The `:` after `read` keeps bash from exiting with read's status on a timeout.
_BASH: Final = f'exec 3<>"/dev/$2/$0/$1" && {{ [ "$2" = tcp ] || echo >&3; read -r -t {HOLD_SECONDS}; :; }}'


def _nc(address: str, port: int, protocol: str) -> list[str]:
    return ["nc", *(["-u"] if protocol == "udp" else []), "-w", str(HOLD_SECONDS), address, str(port)]


def _python(address: str, port: int, protocol: str) -> list[str]:
    return ["python3", "-c", _PYTHON, address, str(port), protocol]


def _bash(address: str, port: int, protocol: str) -> list[str]:
    return ["bash", "-c", _BASH, address, str(port), protocol]


TOOLS: Final[tuple[Callable[[str, int, str], list[str]], ...]] = (_nc, _python, _bash)
"""The commands to try, in this order, for an address, a port and `tcp` or `udp`."""

FIRST_INPUT: Final = b"\n"
"""The input after which `nc` sends a datagram."""
