"""Ends a process that runs out of memory, with one line on stderr.

After the first failed allocation no state can be trusted: libraries written in C follow null pointers, and a handler
may be half done. Acknowledged writes are on disk, so ending is safe, and the supervisor starts the process again. The
line is allocated beforehand, as there is no memory left for it.
"""

from __future__ import annotations

import os
import sys
import threading
from asyncio import AbstractEventLoop
from typing import Any

_NO_THREAD = ("can't start new thread",)
_LINE = b"error: out of memory: the process ends here; give it more memory, or fewer objects\n"


def end_if_out_of_memory(error: BaseException | None) -> None:
    """End the process if `error` is an out-of-memory error. Call it in every handler that catches all exceptions."""
    # A thread needs memory for its stack; without it Python raises this message.
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and error.args == _NO_THREAD):
        os.write(2, _LINE)
        os._exit(1)


def end_when_out_of_memory(loop: AbstractEventLoop) -> None:
    """Also handle uncaught exceptions: in callbacks of the loop, in threads, in destructors."""
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
