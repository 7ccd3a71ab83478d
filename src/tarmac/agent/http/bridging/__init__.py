"""exec and attach between a client, by WebSocket or by SPDY, and the runtime's stream to the command.

No byte of a client goes to the runtime as it came. Each frame is read and bounded; what the runtime's stream is told is
standard input, the end of it, and sizes of terminals that are numbers.

Each end writes into the other without tasks, and an end that is backed up stops the reading of the other. The session
is over when the command has ended or the runtime's end is gone; a client that goes takes the runtime's end with it.
"""

from tarmac.agent.http.bridging.rawclient import RawClient
from tarmac.agent.http.bridging.spdyclient import SpdyClient
from tarmac.agent.http.bridging.websocketclient import WebSocketClient

__all__ = ["RawClient", "SpdyClient", "WebSocketClient"]
