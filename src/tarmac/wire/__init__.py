"""Formats of long-lived streams, without input or output: SPDY/3.1, WebSocket, the channels of exec and forwarding."""
