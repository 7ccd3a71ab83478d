"""Taps: links whose other end is a descriptor, which a virtual machine reads and writes frames through.

A tap is persistent, so that it outlives whoever made it and whoever used it; one process at a time has it open, and
while nobody does it has no carrier. Its addresses, routes and fixed neighbours stay meanwhile: the next process that
opens it goes on where the last one ended.
"""

from __future__ import annotations

import errno
import fcntl
import io
import struct
from typing import Final

from tarmac.datapath.linux import namespaces

KIND: Final = "tun"
"""What the kernel calls the kind of such a link."""

_DEVICE: Final = "/dev/net/tun"
_SET_INTERFACE: Final = 0x400454CA
_SET_PERSISTENT: Final = 0x400454CB
_TAP, _NO_INFO, _VIRTIO_HEADER = 0x0002, 0x1000, 0x4000
_REQUEST: Final = struct.Struct("=16sH22x")


def make(name: str) -> None:
    """Have a tap in the namespace this thread is in. Raises OSError."""
    with open_tap(name) as tap:
        fcntl.ioctl(tap, _SET_PERSISTENT, 1)  # a crash before this takes the tap with it


def prepare(name: str) -> None:
    """Answer ARP on it for everybody else of the subnet: a guest shares its link with the router only."""
    # By default the kernel holds such answers back for up to eight tenths of a second.
    namespaces.set_controls({f"ipv4/conf/{name}/proxy_arp": "1", f"ipv4/neigh/{name}/proxy_delay": "0"})


def open_tap(name: str) -> io.FileIO:
    """The tap of this name in the namespace this thread is in; one that is not there is made, and ends with the file.

    Each frame stands behind virtio's header. Raises OSError, with EBUSY while somebody else has it.
    """
    try:
        tap = io.FileIO(_DEVICE, "r+")
    except FileNotFoundError as missing:
        raise OSError(errno.ENODEV, f"{_DEVICE} is missing: load the kernel's module tun") from missing
    try:
        fcntl.ioctl(tap, _SET_INTERFACE, _REQUEST.pack(name.encode(), _TAP | _NO_INFO | _VIRTIO_HEADER))
    except BaseException:
        tap.close()
        raise
    return tap
