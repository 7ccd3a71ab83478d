"""HTTP/1.1 over TLS on asyncio: parsing, limits, keep-alive, streams and upgrades. Knows nothing about Kubernetes."""
