"""Stream formats without I/O: SPDY/3.1, HTTP/2, WebSocket, the channels of exec and forwarding."""
