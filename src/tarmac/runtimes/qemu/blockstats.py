"""Bytes read and written by a machine's disks, as counted by QEMU since its process started. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from tarmac.runtimes.qemu.records import DiskRecord


class DiskTraffic(NamedTuple):
    """Bytes read and written by one disk."""

    read: int
    written: int


class _Stats(msgspec.Struct):
    rd_bytes: int
    wr_bytes: int


class _Device(msgspec.Struct, rename="kebab"):
    stats: _Stats
    node_name: str = ""


def disk_traffic(answer: Any, disks: Sequence[DiskRecord]) -> dict[str, DiskTraffic]:
    """Parse a response to `query-blockstats`, by disk name in the guest. Raises msgspec.ValidationError."""
    nodes = {each.node_name: each.stats for each in msgspec.convert(answer, list[_Device])}
    named = ((disk.name, nodes.get(f"disk{index}")) for index, disk in enumerate(disks))
    return {name: DiskTraffic(found.rd_bytes, found.wr_bytes) for name, found in named if found is not None}
