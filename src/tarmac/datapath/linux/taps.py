"""Taps: links with a descriptor as their other end, through which a virtual machine reads and writes frames.

A tap is persistent, so it outlives its creator and its users; one process at a time has it open, with a file for each
of its queues, and while none does it has no carrier. Its addresses, routes and permanent neighbours stay meanwhile: the
next process that opens it continues where the last one ended.
"""

from __future__ import annotations

import errno
import fcntl
import io
import struct
from typing import Final

from tarmac.datapath.linux import namespaces

KIND: Final = "tun"
"""The kernel's kind of such a link."""

_DEVICE: Final = "/dev/net/tun"
_SET_INTERFACE: Final = 0x400454CA
_SET_PERSISTENT: Final = 0x400454CB
_TAP, _QUEUES, _NO_INFO, _VIRTIO_HEADER = 0x0002, 0x0100, 0x1000, 0x4000
_REQUEST: Final = struct.Struct("=16sH22x")


def make(name: str) -> None:
    """Create a tap in the namespace this thread is in. Raises OSError."""
    with open_tap(name) as tap:
        fcntl.ioctl(tap, _SET_PERSISTENT, 1)  # a crash before this deletes the tap


def prepare(name: str) -> None:
    """Answer ARP on it for all other hosts of the subnet: a guest shares its link with the router only."""
    # By default the kernel delays such answers for up to eight tenths of a second.
    namespaces.set_controls({f"ipv4/conf/{name}/proxy_arp": "1", f"ipv4/neigh/{name}/proxy_delay": "0"})


def open_tap(name: str) -> io.FileIO:
    """Open a queue of a tap in the namespace this thread is in; a missing tap is deleted when its files are closed.

    Each frame follows a virtio header. A tap of an older version has one queue. Raises OSError, with EBUSY while
    another process has that one open.
    """
    try:
        tap = io.FileIO(_DEVICE, "r+")
    except FileNotFoundError as missing:
        raise OSError(errno.ENODEV, f"{_DEVICE} is missing: load the kernel's module tun") from missing
    try:
        try:
            _set_interface(tap, name, _TAP | _QUEUES | _NO_INFO | _VIRTIO_HEADER)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _set_interface(tap, name, _TAP | _NO_INFO | _VIRTIO_HEADER)
    except BaseException:
        tap.close()
        raise
    return tap


def _set_interface(tap: io.FileIO, name: str, flags: int) -> None:
    fcntl.ioctl(tap, _SET_INTERFACE, _REQUEST.pack(name.encode(), flags))
