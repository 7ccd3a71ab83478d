"""A gRPC client: calls over one connection, with deadlines and status codes.

    _, connection = await loop.create_unix_connection(lambda: GrpcConnection("localhost"), path)
    answer = await connection.call("package.Service/Method", message, timeout=5)

Messages are bytes; the caller encodes and decodes them. A cancelled or expired call is cancelled at the server as well.
A lost connection fails every call on it as UNAVAILABLE and stays lost.
"""

from tarmac.http.grpc.connection import GrpcConnection, GrpcStream, Metadata
from tarmac.http.grpc.errors import Code, GrpcError, MessageTooLong

__all__ = ["Code", "GrpcConnection", "GrpcError", "GrpcStream", "MessageTooLong", "Metadata"]
