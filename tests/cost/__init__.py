"""The cost of requests: none blocks the event loop for other clients."""
