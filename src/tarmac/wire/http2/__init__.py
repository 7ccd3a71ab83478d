"""HTTP/2, as far as gRPC needs it.

`Session` is one connection of the asking side: bytes in, events out, bytes to send in between. Its headers are written
as literals, so that there is no table to keep. Windows are kept in both directions, and no more streams begun than the
peer takes. `AnsweringSession` is the other side, for small questions and answers only.
"""

from tarmac.wire.http2.answering import AnsweringSession, Asked
from tarmac.wire.http2.events import Answered, Cut, Ended, Event, Received
from tarmac.wire.http2.session import Session

__all__ = ["Answered", "AnsweringSession", "Asked", "Cut", "Ended", "Event", "Received", "Session"]
