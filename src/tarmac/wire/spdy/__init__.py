"""SPDY/3.1, as exec, attach and port-forward of Kubernetes use it.

`Session` is one side of a connection: bytes in, events out, bytes to send in between. It implements no flow-control
windows, since the implementation of every peer (moby/spdystream) has none: back-pressure is TCP's.
"""

from tarmac.wire.spdy.session import Event, Finished, GoneAway, Opened, Received, Replied, Session

__all__ = ["Event", "Finished", "GoneAway", "Opened", "Received", "Replied", "Session"]
