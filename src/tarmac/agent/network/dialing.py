"""Connects to pods from inside their network; to host-network pods, from the node."""

from __future__ import annotations

import asyncio
import errno
import socket

import msgspec

from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.datapath.interface import Datapath


def interfaces_of(pod: JsonObject) -> list[AttachedInterface]:
    """Return the interfaces that the control plane gave a pod. Raises ValueError if they cannot be decoded."""
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_INTERFACES, "")
    try:
        return decode_interfaces(text) if text else []
    except msgspec.MsgspecError as error:
        raise ValueError(f"the annotation {ANNOTATION_INTERFACES} cannot be read: {error}") from error


class PodDialer:
    """Connects to pods for probes and forwarded ports."""

    def __init__(self, datapath: Datapath) -> None:
        self._datapath = datapath

    async def __call__(self, pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
        """Return a connected, non-blocking TCP socket. Raises OSError, TimeoutError included."""
        for interface in interfaces_of(pod):
            if address in (own.partition("/")[0] for own in interface.addresses):
                return await self._datapath.connect(interface.network, address, port, timeout)
        if not pod["spec"].get("hostNetwork"):  # the node's own addresses, such as its loopback, must stay out of reach
            raise OSError(errno.ENETUNREACH, f"{address} is not an address of the pod")
        return await from_the_node(pod, address, port, timeout)


async def from_the_node(pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
    """As `PodDialer`, over the node's own routes: for host-network pods, and for pods connected by other plugins."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        # BaseException: a cancellation must close the socket too.
        made.close()
        raise
    return made
