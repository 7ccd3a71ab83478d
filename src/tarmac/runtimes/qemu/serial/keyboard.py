"""The pipe to a machine's serial port while somebody has its keyboard: keys go in, and nothing comes back.

What the guest writes is in the file. QEMU hands it to nobody else: with a connection that goes both ways, whoever does
not take every byte at once stops the guest, and QEMU logs the byte again when it tries again.

The pipe's folder is the process's own, and a guest that has taken the process over could put something else in its
place. So only a pipe of the machine's user is written to, and no link is followed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, cast

KEYS: Final = "serial.in"
"""The pipe's name, in the process's folder."""


class KeyboardConnection(asyncio.Protocol):
    """Keys to a guest. `held` is told when it does not take them, and when it does again; `lost` when it has gone."""

    def __init__(self, held: Callable[[bool], None], lost: Callable[[], None]) -> None:
        self._held = held
        self._lost = lost
        self._transport = cast("asyncio.WriteTransport", None)

    def press(self, keys: bytes) -> None:
        """Lost when the machine has just gone."""
        if not self._transport.is_closing():
            self._transport.write(keys)

    def close(self) -> None:
        """Hang up at once. What the kernel has been given already arrives all the same."""
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
    """Open the pipe, whose reader runs as `user`. Raises OSError: ENXIO when nobody reads it."""
    pipe = _open(path, user)
    return (await asyncio.get_running_loop().connect_write_pipe(lambda: KeyboardConnection(held, lost), pipe))[1]


def _open(path: Path, user: int) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISFIFO(found.st_mode) or found.st_uid != user:
        os.close(descriptor)
        raise PermissionError("something else is where the machine's pipe should be")
    return open(descriptor, "wb", buffering=0)
