"""Opens a machine's interface: a queue of its tap for each processor of the guest, and vhost-net for each queue.

Without vhost-net one thread of QEMU carries the frames of all queues, so an interface has one queue there.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tarmac.runtimes.qemu.machine import Accelerator, TapInterface
from tarmac.runtimes.qemu.vhost import DEVICE, open_vhost

MAX_QUEUES: Final = 8  # each takes a thread of the host's kernel and two interrupts of the guest


async def open_interface(
    mac: str,
    tap: io.FileIO,
    open_further: Callable[[], Awaitable[io.FileIO]],
    files: ExitStack,
    accelerator: Accelerator,
    processors: int,
    device: Path = DEVICE,
) -> TapInterface:
    """Return the interface of an open tap; `files` closes all of its descriptors. Raises OSError."""
    queues, vhosts = [files.enter_context(tap)], list[io.FileIO]()
    while (vhost := open_vhost(accelerator, device)) is not None:
        vhosts.append(files.enter_context(vhost))
        if len(queues) >= min(processors, MAX_QUEUES):
            break
        try:
            queues.append(files.enter_context(await open_further()))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            break  # a tap that an older version has made has one queue
    return TapInterface(mac, _numbers(queues[: len(vhosts) or 1]), _numbers(vhosts))


def _numbers(files: Sequence[io.FileIO]) -> tuple[int, ...]:
    return tuple(each.fileno() for each in files)
