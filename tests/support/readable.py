"""Waits for a descriptor of any number: `select()` rejects those from 1024 on."""

from __future__ import annotations

import select
from typing import IO


def readable(one: int | IO[bytes] | IO[str], seconds: float) -> bool:
    """Return true when data or the end can be read within some seconds."""
    waiting = select.poll()
    waiting.register(one, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
