"""Publishes the largest packet between nodes in an annotation of the Node; Networks derive their MTU from it.

It is the MTU of the link that has the node's own address. Interfaces are queried through sockets: `/sys` may show
another network namespace than the agent's.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Final, NoReturn

from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.api.status import ApiError, Forbidden
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import NODES

CHECK_INTERVAL: Final = 60.0
RETRY_INTERVAL: Final = 5.0
_GET_ADDRESS, _GET_MTU = 0x8915, 0x8921
_REQUEST: Final = struct.Struct("16s24x")
# Of the calling thread: /proc/net is that of the main thread, which may be in another network namespace.
_IPV6: Final = Path("/proc/thread-self/net/if_inet6")

_log = log("agent")


def mtu_of(address: str) -> int | None:
    """Return the MTU of the link that has an address; None if no link has it."""
    link = _link_with_ipv6(address) if ":" in address else _link_with_ipv4(address)
    if link is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        answer = fcntl.ioctl(asking, _GET_MTU, _REQUEST.pack(link.encode()))
        return struct.unpack_from("i", answer, 16)[0]


def _link_with_ipv4(address: str) -> str | None:
    wanted = socket.inet_aton(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # a link without an address
                # In a sockaddr_in the address follows family and port.
                if fcntl.ioctl(asking, _GET_ADDRESS, _REQUEST.pack(name.encode()))[20:24] == wanted:
                    return name
    return None


def _link_with_ipv6(address: str) -> str | None:
    wanted = IPv6Address(address).packed.hex()
    lines = (line.split() for line in _IPV6.read_text().splitlines())
    return next((fields[5] for fields in lines if fields[0] == wanted), None)


class UnderlayAnnotation:
    """Keeps the annotation up to date."""

    def __init__(self, client: Client, node: str, addresses: Callable[[], Sequence[str]]) -> None:
        self._client = client
        self._node = node
        self._addresses = addresses
        self._published: int | None = None
        self._refused: int | None = None  # logged once

    async def run(self) -> NoReturn:
        """Update the annotation periodically until cancelled."""
        while True:
            await self._client.clock.sleep(CHECK_INTERVAL if await self.update() else RETRY_INTERVAL)

    async def update(self) -> bool:
        """Write the annotation if it changed. Return False if it must be retried."""
        sizes = [size for address in self._addresses() if (size := mtu_of(address)) is not None]
        if not sizes:
            return False
        if min(sizes) == self._published:
            return True
        patch = {"metadata": {"annotations": {ANNOTATION_UNDERLAY_MTU: str(min(sizes))}}}
        try:
            await self._client.resource(NODES).patch(self._node, patch)
        except Forbidden as refusal:
            if min(sizes) != self._refused:
                self._refused = min(sizes)
                _log.warning("server rejects the underlay MTU annotation", node=self._node, why=str(refusal))
            return False
        except (ApiError, ClientError) as error:
            _log.debug("underlay MTU annotation write failed, will retry", node=self._node, why=str(error))
            return False
        self._published = min(sizes)
        return True
