"""XIDs from the kernel's log, /dev/kmsg: the driver prints one line for each, with the slot of the GPU.

A record is `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`. Texts hold names of tenants' programs, so only a record that
begins as the driver's does counts: the kernel escapes line ends in them, and a name has at most 15 characters.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tarmac.base.log import log

PATH: Final = Path("dev/kmsg")
_MAX_RECORD: Final = 16 * 1024
_CHUNK: Final = 256  # records read before the event loop has a turn
_DRIVER: Final = (
    # 0 to 7: the facility of the kernel itself, which a program that writes to /dev/kmsg cannot take.
    rb"[0-7],\d{1,20},\d{1,20},[^;\n]{0,200};"
    rb"NVRM: Xid \(PCI:([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:[. ][^)\n]{0,32})?\): (\d{1,4})(?!\d)"
)
_XID: Final = re.compile(_DRIVER)
_SLOT: Final = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?")
_log = log("nvidia")

Slot = tuple[int, int, int]
"""PCI domain, bus and device."""


def slot_of(bus: str) -> Slot | None:
    """Return the slot of a PCI address such as `0000:05:00.0`; None for anything else."""
    found = _SLOT.fullmatch(bus)
    return (int(found[1], 16), int(found[2], 16), int(found[3], 16)) if found else None


def xid_in(record: bytes) -> tuple[Slot, int] | None:
    """Return the slot and the number of the XID that a record reports, or None."""
    found = _XID.match(record)
    return ((int(found[1], 16), int(found[2], 16), int(found[3], 16)), int(found[4])) if found else None


class KernelLog:
    """Calls `on_xid` for each XID from now on. `problem` says why it hears none; empty while it does."""

    def __init__(
        self, path: Path, on_xid: Callable[[Slot, int], None], read: Callable[[int, int], bytes] = os.read
    ) -> None:
        self._path = path
        self._on_xid = on_xid
        self._read = read
        self._file = -1
        self.problem = ""

    def ensure_open(self) -> None:
        """Open the log at its end, unless it is open; `problem` says if that failed. For a running event loop."""
        if self._file >= 0:
            return
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # Earlier XIDs are in the report of the plugin before this one, or were repaired by a restart.
            with suppress(OSError):
                os.lseek(self._file, 0, os.SEEK_END)
            asyncio.get_running_loop().add_reader(self._file, self._on_readable)
        except OSError as error:
            self._fail(f"{self._path}: {error.strerror}")
            return
        self.problem = ""

    def close(self) -> None:
        """Stop reading."""
        if self._file >= 0:
            with suppress(OSError):  # a file that cannot be polled was never added
                asyncio.get_running_loop().remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _fail(self, why: str) -> None:
        self.close()
        if why != self.problem:
            _log.warning("kernel log cannot be read", why=why)
        self.problem = why

    def _on_readable(self) -> None:
        # A bounded number: a kernel that logs without end must not keep the plugin from answering.
        for _ in range(_CHUNK):
            try:
                record = self._read(self._file, _MAX_RECORD)
            except BlockingIOError:
                return
            except OSError as error:
                if not self._survives(error):
                    return
                continue
            if not record:  # /dev/kmsg has no end, and what has one would be readable for ever
                self._fail(f"{self._path} has ended")
                return
            if (found := xid_in(record)) is not None:
                self._on_xid(*found)

    def _survives(self, error: OSError) -> bool:
        """Return True if reading can go on."""
        if error.errno == errno.EPIPE:
            # Overwritten before it was read; the next read returns the oldest record that is left. XIDs among the lost
            # ones show by the recovery action that NVML reports.
            _log.warning("kernel log overrun, XIDs may be lost")
            return True
        if error.errno == errno.EINVAL:  # a record larger than the buffer: the kernel has skipped it
            return True
        self._fail(f"{self._path}: {error.strerror}")
        return False
