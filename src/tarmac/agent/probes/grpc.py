"""gRPC health checks over a socket made in the pod's network; gRPC libraries insist on dialing themselves.

Each of the two messages is one field: field 1 of HealthCheckRequest is the service, field 1 of HealthCheckResponse its
status.
"""

from __future__ import annotations

import asyncio

from tarmac.agent.model.interfaces import Connector
from tarmac.agent.probes.dialing import dial, join, wording
from tarmac.agent.probes.outcome import SUCCESS, ProbeResult, failure
from tarmac.api.schema import JsonObject
from tarmac.base.duration import format_duration
from tarmac.http.grpc import Code, GrpcConnection, GrpcError
from tarmac.wire.protobuf import varint

_METHOD = "grpc.health.v1.Health/Check"
_METADATA = (("user-agent", "kube-probe/1.35"),)
_STATUSES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_MAX_RESPONSE = 4096


async def probe_grpc(
    connect: Connector, pod: JsonObject, address: str, port: int, service: str, timeout: float
) -> ProbeResult:
    """Return success if the service reports SERVING."""
    where = join(address, port)
    within = format_duration(timeout)
    try:
        sock = await dial(connect, pod, address, port, timeout)
    except TimeoutError:
        return failure(f'timeout: failed to connect service "{where}" within {within}: context deadline exceeded')
    except OSError as error:
        return failure(f'error: failed to connect service at "{where}": {error}')
    connection = GrpcConnection(where, longest_message=_MAX_RESPONSE)
    try:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=sock)
    except OSError as error:
        sock.close()
        return failure(f'error: failed to connect service at "{where}": {wording(error)}')
    try:
        answer = await connection.call(_METHOD, _request(service), timeout, _METADATA)
    except GrpcError as error:
        return failure(_wording(error, within))
    finally:
        connection.close()
    name = _STATUSES.get(_status(answer), "of another kind")
    return SUCCESS if name == "SERVING" else failure(f'service unhealthy (responded with "{name}")')


def _wording(error: GrpcError, within: str) -> str:
    if error.code == Code.DEADLINE_EXCEEDED:
        return f"timeout: health rpc did not complete within {within}"
    if error.code == Code.UNIMPLEMENTED:
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {error}"
    return f"error: health rpc probe failed: {error}"


def _request(service: str) -> bytes:
    named = service.encode()
    return b"\x0a" + varint(len(named)) + named if named else b""


def _status(answer: bytes) -> int:
    """Return the status; an empty message means UNKNOWN, since zero values are not encoded."""
    return answer[1] if len(answer) >= 2 and answer[0] == 0x08 else 0
