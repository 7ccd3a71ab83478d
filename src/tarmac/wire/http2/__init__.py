"""The part of HTTP/2 that gRPC needs.

`Http2ClientSession` is one client connection: bytes in, events out, bytes to send in between. It writes headers as
literals, so that there is no table to keep. It obeys flow-control windows in both directions, and the peer's stream
limit.
`Http2ServerSession` is a server connection, for small requests and responses only.
"""

from tarmac.wire.http2.clientsession import (
    DataReceived,
    Event,
    Http2ClientSession,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from tarmac.wire.http2.serversession import Http2ServerSession, RequestReceived

__all__ = [
    "DataReceived",
    "Event",
    "Http2ClientSession",
    "Http2ServerSession",
    "RequestReceived",
    "ResponseReceived",
    "StreamEnded",
    "StreamReset",
]
