"""gRPC, the asking side: calls over one connection, their deadlines, and what became of them.

    _, connection = await loop.create_unix_connection(lambda: GrpcConnection("localhost"), path)
    answer = await connection.call("package.Service/Method", message, timeout=5)

Messages are bytes; what they mean is the caller's affair. A call that is cancelled, or takes too long, is cancelled at
the other end as well. A connection that is lost fails every call on it as UNAVAILABLE and stays lost.
"""

from tarmac.http.grpc.connection import GrpcConnection, GrpcStream, Metadata
from tarmac.http.grpc.errors import Code, GrpcError, MessageTooLong

__all__ = ["Code", "GrpcConnection", "GrpcError", "GrpcStream", "MessageTooLong", "Metadata"]
