"""The channels of exec, attach and port-forward: their names in SPDY headers, numbers in WebSockets, and end.

In a WebSocket the first byte of a message is its channel. `v5.channel.k8s.io` adds to v4 that a message of `FF n` ends
channel n, which is the only way to end standard input without ending everything.
"""

from __future__ import annotations

import json
from enum import IntEnum

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
TUNNELLED_SPDY = "SPDY/3.1+portforward.k8s.io"
PORT_FORWARD_V1 = "portforward.k8s.io"  # the X-Stream-Protocol-Version of port-forward over SPDY

STREAM_TYPE = "streamtype"
PORT = "port"
REQUEST_ID = "requestid"
PROTOCOL_VERSION = "x-stream-protocol-version"


class Channel(IntEnum):
    """Numbers of exec's and attach's channels."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255

    @property
    def stream_type(self) -> str:
        """Its name in SPDY."""
        return self.name.lower()


def failure(message: str) -> bytes:
    """Return the error channel's message for a command that could not be run, or ended with an unknown status."""
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
    return json.dumps(status).encode()


def exited(code: int) -> bytes:
    """Return the error channel's message for a command that has exited."""
    if not code:
        return b'{"metadata":{},"status":"Success"}'
    message = f"command terminated with non-zero exit code: {code}"
    details = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode", "details": details}
    return json.dumps(status).encode()
