"""HTTP/1.1 over TLS on asyncio: parsing, limits, keep-alive, streams and upgrades.

It serves the API server and the node's own API and knows nothing about either. `grpc` is the gRPC client and
`grpcserver` the gRPC server; only these two speak HTTP/2.
"""
