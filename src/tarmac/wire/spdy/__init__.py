"""SPDY/3.1, as exec, attach and port-forward of Kubernetes use it.

`SpdySession` is one side of a connection: bytes in, events out, bytes to send in between. It implements no flow-control
windows, since the implementation of every peer (moby/spdystream) has none: back-pressure is TCP's.
"""

from tarmac.wire.spdy.session import (
    Event,
    GoneAway,
    SpdySession,
    StreamData,
    StreamFinished,
    StreamOpened,
    StreamReplied,
)

__all__ = ["Event", "GoneAway", "SpdySession", "StreamData", "StreamFinished", "StreamOpened", "StreamReplied"]
