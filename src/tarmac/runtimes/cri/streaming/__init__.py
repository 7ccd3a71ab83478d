"""Streams of exec and attach, from the streaming server that a CRI runtime names by URL.

The connection to the runtime is always SPDY: its WebSockets cannot close standard input. The runtime trusts its peer: a
frame that claims four billion settings takes all memory of the host. So no byte of a client is forwarded as received.
The runtime gets only streams that we opened, data in chunks of at most 8 KiB, the end of standard input, and terminal
sizes that are numbers.
"""

from __future__ import annotations

from tarmac.runtimes.cri.streaming.dialing import open_stream
from tarmac.runtimes.cri.streaming.session import SpdyCommandStream

__all__ = ["SpdyCommandStream", "open_stream"]
