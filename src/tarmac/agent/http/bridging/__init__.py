"""exec and attach between a client, by WebSocket or by SPDY, and SPDY to the runtime.

The runtime believes its peer: a frame that claims four billion settings takes all memory of the machine. So no byte of
a client goes there as it came. Each frame is read, bounded and written anew: what reaches the runtime are streams that
we opened, data in pieces of 8 KiB at most, ends of streams, and sizes of terminals that are numbers.

Each end writes into the other without tasks, and an end that is backed up stops the reading of the other. The session
is over when the runtime has ended its streams or the connection; a client that goes takes the runtime's end with it.
"""

from tarmac.agent.http.bridging.runtimeend import CommandClient, RuntimeEnd
from tarmac.agent.http.bridging.spdyclient import SpdyClient
from tarmac.agent.http.bridging.websocketclient import WebSocketClient

__all__ = ["CommandClient", "RuntimeEnd", "SpdyClient", "WebSocketClient"]
