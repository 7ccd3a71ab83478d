"""Formats of streams, without input or output: SPDY/3.1, HTTP/2, WebSocket, the channels of exec and forwarding."""
