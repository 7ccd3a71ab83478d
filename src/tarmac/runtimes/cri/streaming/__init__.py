"""Streams of exec and attach, had from the streaming server that a CRI runtime names by URL.

The runtime is always spoken to by SPDY: its WebSockets cannot end standard input. The runtime believes its peer: a
frame that claims four billion settings takes all memory of the machine. So no byte of a client goes there as it came:
what reaches the runtime are streams that we opened, data in pieces of 8 KiB at most, the end of standard input, and
sizes of terminals that are numbers.
"""

from __future__ import annotations

from tarmac.runtimes.cri.streaming.dialing import open_stream
from tarmac.runtimes.cri.streaming.session import SpdyCommandStream

__all__ = ["SpdyCommandStream", "open_stream"]
