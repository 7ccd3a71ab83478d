"""Encryption between nodes in tests: the means on this machine, and a capture on the wire between the nodes."""

from __future__ import annotations

import socket
import struct
import subprocess

import pytest

from tarmac.datapath.egress import Means
from tarmac.datapath.linux.egress import wireguard
from tarmac.datapath.linux.egress.wireguard import WireGuardPrograms
from tarmac.runtimes.parts import PartMissing, find_program
from tests.datapath.lab import Lab


class Wire:
    """Frames between the nodes of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._eye = lab.inside(
            lab.folder / "wire", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        )
        self._eye.setblocking(False)

    def seen(self) -> set[tuple[int, int, int]]:
        """Return senders and receivers by number, and the UDP port, of packets since the last call."""
        found: set[tuple[int, int, int]] = set()
        while True:
            try:
                frame = self._eye.recv(2048)
            except BlockingIOError:
                return found
            if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_UDP and frame[26:29] == frame[30:33]:
                at = 14 + (frame[14] & 15) * 4
                found.add((frame[29], frame[33], struct.unpack_from(">H", frame, at + 2)[0]))

    def close(self) -> None:
        self._eye.close()


def encrypting(means: Means, patched: pytest.MonkeyPatch) -> WireGuardPrograms:
    """Return the programs for these means of encryption. Skips the test if the kernel lacks the driver."""
    try:
        programs = WireGuardPrograms(find_program("wg"), find_program("wireguard-go"))
    except PartMissing as missing:
        pytest.fail(f"{missing} (python -m tools.node_parts)")
    if means == "kernel" and not kernel_has_driver():
        pytest.skip("NOT RUN: this kernel has no driver for WireGuard (`ip link add type wireguard` fails)")
    if means == "userspace":
        patched.setattr(wireguard, "_kernel_has_driver", lambda *_: False)
    return programs


def kernel_has_driver() -> bool:
    command = ["unshare", "--net", "ip", "link", "add", "trial", "type", "wireguard"]
    return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
