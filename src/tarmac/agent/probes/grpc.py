"""gRPC's health check, spoken by hand: one HTTP/2 stream with one small message each way.

A gRPC library would dial by itself; this has to run over a socket made in the pod's network. HTTP/2 is needed only so
far: our headers are literals, the server's are not read. What counts is the message: field 1 of HealthCheckResponse.
"""

from __future__ import annotations

import asyncio
import struct

from tarmac.agent.pods.interfaces import Connector
from tarmac.agent.probes.dialing import close, dial, join, open_streams, wording
from tarmac.agent.probes.outcome import SUCCESS, Outcome, failure
from tarmac.api.schema import JsonObject
from tarmac.base.duration import format_duration

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_STATUSES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
LONGEST_FRAME = 1 << 16


async def probe_grpc(
    connect: Connector, pod: JsonObject, address: str, port: int, service: str, timeout: float
) -> Outcome:
    """Success when the service says SERVING."""
    where = join(address, port)
    within = format_duration(timeout)
    try:
        sock = await dial(connect, pod, address, port, timeout)
    except TimeoutError:
        return failure(f'timeout: failed to connect service "{where}" within {within}: context deadline exceeded')
    except OSError as error:
        return failure(f'error: failed to connect service at "{where}": {error}')
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await open_streams(sock, None, address)
            try:
                status = await _check(reader, writer, where, service)
            finally:
                close(writer)
    except TimeoutError:
        return failure(f"timeout: health rpc did not complete within {within}")
    except (OSError, EOFError, ValueError) as error:
        return failure(f"error: health rpc probe failed: {wording(error)}")
    if status is None:
        return failure("error: this server does not implement the grpc health protocol (grpc.health.v1.Health)")
    name = _STATUSES.get(status, str(status))
    return SUCCESS if name == "SERVING" else failure(f'service unhealthy (responded with "{name}")')


async def _check(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, service: str
) -> int | None:
    """The status the server answers with; None when it answers with an error."""
    named = service.encode()
    message = b"\x0a" + _varint(len(named)) + named if named else b""
    body = b"\0" + struct.pack(">I", len(message)) + message
    writer.write(
        _PREFACE
        + _frame(_SETTINGS, 0, 0)
        + _frame(_HEADERS, _END_HEADERS, 1, _headers(authority))
        + _frame(_DATA, _END_STREAM, 1, body)
    )
    answer = b""
    while True:
        kind, flags, stream, payload = await _read(reader)
        if kind == _SETTINGS and not flags & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            writer.write(_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY or (kind == _RESET and stream == 1):
            raise ValueError("the server closed the connection")
        elif stream == 1 and kind in (_DATA, _HEADERS):
            if kind == _DATA:
                answer += payload
            if flags & _END_STREAM:
                return _status(answer)


def _status(answer: bytes) -> int | None:
    """Field 1 of the message; an empty message is UNKNOWN, none at all an error in the trailers."""
    if len(answer) < 5:
        return None
    message = answer[5 : 5 + struct.unpack(">I", answer[1:5])[0]]
    return message[1] if len(message) >= 2 and message[0] == 0x08 else 0


def _headers(authority: str) -> bytes:
    fields = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("user-agent", "kube-probe/1.35"),
        ("te", "trailers"),
    )
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def _text(value: str) -> bytes:
    """A literal of HPACK, which packs lengths into seven bits."""
    data = value.encode()
    if len(data) < 127:
        return bytes((len(data),)) + data
    return b"\x7f" + _varint(len(data) - 127) + data


def _varint(number: int) -> bytes:
    """Seven bits at a time, the lowest first: protobuf and HPACK agree on this."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


async def _read(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    try:
        head = await reader.readexactly(9)
        length = int.from_bytes(head[:3])
        if length > LONGEST_FRAME:
            raise ValueError("the answer is not HTTP/2")
        payload = await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise EOFError("EOF") from error
    return head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF, payload
