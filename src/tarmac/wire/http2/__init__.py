"""HTTP/2, the asking side, as far as gRPC needs it.

`Session` is one connection: bytes in, events out, bytes to send in between. Requests are whole when they are made, and
their headers are written as literals, so that there is no table to keep. Windows are kept in both directions.
"""

from tarmac.wire.http2.session import Answered, Cut, Ended, Event, Received, Session

__all__ = ["Answered", "Cut", "Ended", "Event", "Received", "Session"]
