"""The yardsticks for creates: one-object transactions on a local etcd.

`create_rate` sends as fast as possible: requests are encoded beforehand down to their HTTP/2 frames, and responses are
only scanned for the frame that ends a stream. That is etcd's own limit. `grpc_create_rate` uses grpcio, as a Python
program with etcd would; requests are serialised beforehand and responses left as bytes. That is mostly the client's
limit. Each transaction is an API server's create: compare the key's modification revision with zero, then put.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from time import perf_counter
from typing import Any, cast

import grpc.aio

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """A header field without indexing, name and value in full (RFC 7541 §6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


_HEADERS = b"".join(
    _literal(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/etcdserverpb.KV/Txn"),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size, length = len(payload), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def create_transaction(key: bytes, value: bytes) -> bytes:
    """TxnRequest{compare: mod_revision(key) == 0, success: put(key, value)}, serialised."""
    # Compare{result EQUAL (0, the default), target MOD = 2, key, mod_revision = 0}
    compare = b"\x10\x02" + _field(3, key) + b"\x30\x00"
    put = _field(2, _field(1, key) + _field(2, value))  # RequestOp.request_put
    return _field(1, compare) + _field(2, put)


def _grpc_message(message: bytes) -> bytes:
    """Add the prefix that gRPC puts before each message: uncompressed, and the length."""
    return b"\x00" + struct.pack(">I", len(message)) + message


class _Connection(asyncio.Protocol):
    """One HTTP/2 connection with a fixed number of streams in flight."""

    def __init__(self, messages: Iterator[bytes], in_flight: int, done: asyncio.Future[int]) -> None:
        self._messages = messages
        self._in_flight = in_flight
        self._done = done
        self._stream = 1
        self._open = 0
        self._answered = 0
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        window = _frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65535))
        self._transport.write(PREFACE + _frame(SETTINGS, 0, 0, b"") + window)
        for _ in range(self._in_flight):
            self._send()

    def _send(self) -> None:
        message = next(self._messages, None)
        if message is None:
            if not self._open and not self._done.done():
                self._done.set_result(self._answered)
            return
        stream, self._stream = self._stream, self._stream + 2
        self._open += 1
        headers = _frame(HEADERS, END_HEADERS, stream, _HEADERS)
        self._transport.write(headers + _frame(DATA, END_STREAM, stream, message))

    def data_received(self, data: bytes) -> None:
        buffer, position = self._buffer + data, 0
        while len(buffer) - position >= 9:
            length = int.from_bytes(buffer[position : position + 3], "big")
            if len(buffer) - position < 9 + length:
                break
            kind, flags = buffer[position + 3], buffer[position + 4]
            self._take(kind, flags, buffer[position + 9 : position + 9 + length])
            position += 9 + length
        self._buffer = buffer[position:]

    def _take(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == HEADERS and flags & END_STREAM:
            self._open -= 1
            self._answered += 1
            self._send()
        elif kind == SETTINGS and not flags & ACK:
            self._transport.write(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._transport.write(_frame(PING, ACK, 0, payload))
        elif kind == GOAWAY and not self._done.done():
            self._done.set_exception(ConnectionError(f"etcd said good-bye: {payload!r}"))


def _transactions(total: int, value: bytes, prefix: bytes) -> list[bytes]:
    return [create_transaction(b"%b%08d" % (prefix, number), value) for number in range(total)]


async def grpc_create_rate(port: int, total: int, concurrency: int, value: bytes, prefix: bytes) -> float:
    """Transactions per second at `concurrency` in flight, over one channel of grpcio."""
    messages = iter(_transactions(total, value, prefix))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = cast(Any, channel).unary_unary("/etcdserverpb.KV/Txn")  # without serialisers: bytes in, bytes out

        async def work() -> None:
            for message in messages:
                await call(message)

        await channel.channel_ready()
        start = perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        return total / (perf_counter() - start)


async def create_rate(port: int, total: int, concurrency: int, value: bytes, prefix: bytes) -> float:
    """Transactions per second at `concurrency` in flight, over eight connections."""
    loop = asyncio.get_running_loop()
    connections = min(8, concurrency)
    messages = iter([_grpc_message(message) for message in _transactions(total, value, prefix)])
    waits: list[asyncio.Future[int]] = []
    transports: list[asyncio.BaseTransport] = []
    start = perf_counter()
    for _ in range(connections):
        done: asyncio.Future[int] = loop.create_future()
        waits.append(done)
        transport, _protocol = await loop.create_connection(
            lambda done=done: _Connection(messages, concurrency // connections, done), "127.0.0.1", port
        )
        transports.append(transport)
    answered = sum(await asyncio.gather(*waits))
    seconds = perf_counter() - start
    for transport in transports:
        transport.close()
    assert answered == total, f"{answered} of {total} transactions were answered"
    return total / seconds
