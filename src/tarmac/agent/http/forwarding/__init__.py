"""Port-forward: each pair of streams of a client is one TCP connection to the pod.

A client uses SPDY or WebSocket channels; either is a `Lane` to the TCP side. SPDY has no flow control windows here, so
one slow connection to the pod pauses the reading of all connections of that client.
"""
