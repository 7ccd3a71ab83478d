"""Waiting for a descriptor, whatever its number is: `select()` refuses those from 1024 on."""

from __future__ import annotations

import select
from typing import IO


def readable(one: int | IO[bytes] | IO[str], seconds: float) -> bool:
    """Whether there is something to read, or the end, within some seconds."""
    waiting = select.poll()
    waiting.register(one, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
