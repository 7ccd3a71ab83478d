"""HTTP/1.1 over TLS on asyncio: parsing, limits, keep-alive, streams and upgrades.

The API server and the node's own API are served by it. It knows nothing about either. `grpc` asks and
`grpcserver` answers; they alone speak HTTP/2.
"""
