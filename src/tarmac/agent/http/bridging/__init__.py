"""exec and attach between a client, by WebSocket or SPDY, and the runtime's command stream.

No byte of a client reaches the runtime unparsed. Each frame is parsed and bounded; the runtime's stream gets only
standard input, its end, and numeric terminal sizes.

Each end writes into the other without tasks, and a full write buffer pauses the reading of the opposite end. The
session ends when the command has exited or the runtime's end is closed; a disconnecting client closes the runtime's
end.
"""

from tarmac.agent.http.bridging.spdyclient import SpdyClient
from tarmac.agent.http.bridging.websocketclient import RawClient, WebSocketClient

__all__ = ["RawClient", "SpdyClient", "WebSocketClient"]
