"""The part of HTTP/2 that gRPC needs.

`Session` is one client connection: bytes in, events out, bytes to send in between. It writes headers as literals, so
that there is no table to keep. It obeys flow-control windows in both directions, and the peer's stream limit.
`AnsweringSession` is a server connection, for small requests and responses only.
"""

from tarmac.wire.http2.clientsession import Session
from tarmac.wire.http2.events import Answered, Cut, Ended, Event, Received
from tarmac.wire.http2.serversession import AnsweringSession, Asked

__all__ = ["Answered", "AnsweringSession", "Asked", "Cut", "Ended", "Event", "Received", "Session"]
