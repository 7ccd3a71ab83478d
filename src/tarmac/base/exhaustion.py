"""A process that runs out of memory says so and ends.

After the first allocation that failed nothing can be relied on: libraries written in C follow null pointers, and half
of what a handler did may be undone. What was acknowledged is on the disk, so ending is safe, and whoever started the
process starts it again. The line is made beforehand, as there is no memory to make it with.
"""

from __future__ import annotations

import os
import sys
import threading
from asyncio import AbstractEventLoop
from typing import Any

_NO_THREAD = ("can't start new thread",)
_LINE = b"tarmac: out of memory: the process ends here; give it more memory, or less to hold\n"


def end_if_out_of_memory(error: BaseException | None) -> None:
    """To be called by whoever catches everything. Does not return if that was it."""
    # A thread needs memory for its stack, and is refused in these words.
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and error.args == _NO_THREAD):
        os.write(2, _LINE)
        os._exit(1)


def end_when_out_of_memory(loop: AbstractEventLoop) -> None:
    """Also where nobody catches: in callbacks of the loop, in threads, in destructors."""
    in_thread, unraisable = threading.excepthook, sys.unraisablehook

    def in_loop(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        end_if_out_of_memory(context.get("exception"))
        loop.default_exception_handler(context)

    def in_threads(arguments: threading.ExceptHookArgs) -> None:
        end_if_out_of_memory(arguments.exc_value)
        in_thread(arguments)

    def elsewhere(arguments: sys.UnraisableHookArgs) -> None:
        end_if_out_of_memory(arguments.exc_value)
        unraisable(arguments)

    loop.set_exception_handler(in_loop)
    threading.excepthook = in_threads
    sys.unraisablehook = elsewhere
