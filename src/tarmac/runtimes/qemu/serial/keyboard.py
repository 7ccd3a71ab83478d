"""The pipe to a machine's serial port, for the session that has the keyboard. It carries input only.

The guest's output goes only to the file. With a bidirectional connection, a client that does not read every byte at
once would block the guest, and QEMU would log the byte again at each retry.

The machine's process can write to the pipe's directory, and one taken over by its guest could replace the pipe. So only
a pipe owned by the machine's user is written to, and links are not followed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, cast

KEYS: Final = "serial.in"
"""Name of the pipe, in the directory of the process."""


class KeyboardConnection(asyncio.Protocol):
    """Keyboard input to a guest. Calls `held` when it stops or resumes reading, and `lost` when the pipe closes."""

    def __init__(self, held: Callable[[bool], None], lost: Callable[[], None]) -> None:
        self._held = held
        self._lost = lost
        self._transport = cast("asyncio.WriteTransport", None)

    def press(self, keys: bytes) -> None:
        """Send keys; dropped if the machine has just exited."""
        if not self._transport.is_closing():
            self._transport.write(keys)

    def close(self) -> None:
        """Close the pipe, dropping unsent keys. Keys already in the kernel's buffer still arrive."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def pause_writing(self) -> None:
        self._held(True)

    def resume_writing(self) -> None:
        self._held(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


async def connect_keyboard(
    path: Path, user: int, held: Callable[[bool], None], lost: Callable[[], None]
) -> KeyboardConnection:
    """Open the pipe of a process that runs as `user`. Raises OSError: ENXIO if no process reads it."""
    pipe = _open(path, user)
    return (await asyncio.get_running_loop().connect_write_pipe(lambda: KeyboardConnection(held, lost), pipe))[1]


def _open(path: Path, user: int) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISFIFO(found.st_mode) or found.st_uid != user:
        os.close(descriptor)
        raise PermissionError("something else is where the machine's pipe should be")
    return open(descriptor, "wb", buffering=0)
