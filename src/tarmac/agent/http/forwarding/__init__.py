"""Forwarded ports: each pair of streams of a client is one TCP connection to the pod.

A client comes by SPDY or by channels of a WebSocket; either is a `Lane` to the TCP side. SPDY has no windows here, so
one connection to the pod that does not take its bytes holds up the reading of all of the client's.
"""
