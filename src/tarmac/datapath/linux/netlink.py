"""Minimal netlink client for the datapath: many requests in one system call, each answered separately.

A socket stays in the network namespace of the thread that opened it, also if another thread uses it later. Requests of
one batch are executed in order, and one that fails does not stop those after it; `request` raises the first failure
that its message does not tolerate, after all have been tried. A general netlink library would cost the agent 10 MB and
half a millisecond of CPU per call.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

ROUTE: Final = 0
NETFILTER: Final = 12

REQUEST: Final = 0x1
ACK: Final = 0x4
DUMP: Final = 0x300
CREATE: Final = 0x400
EXCLUSIVE: Final = 0x200
REPLACE: Final = 0x100

_ERROR: Final = 0x2
_DONE: Final = 0x3
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_NESTED: Final = 0x8000
_TYPE_MASK: Final = 0x3FFF
_BUFFER: Final = 1 << 17
_SEND_BUFFER: Final = 32  # SO_SNDBUFFORCE: exceeds the limit for unprivileged processes
_BATCH: Final = 64  # answers of one batch must fit into the socket's receive buffer

EXISTS: Final = frozenset({errno.EEXIST})
GONE: Final = frozenset({errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL})


@dataclass(frozen=True, slots=True)
class NetlinkMessage:
    """One request. `tolerated` are errors that mean that the wanted state exists already."""

    type: int
    flags: int
    body: bytes
    tolerated: frozenset[int] = frozenset()


class Netlink:
    """A netlink socket in the namespace of the thread that creates it."""

    def __init__(self, protocol: int = ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        # Room for all answers of a batch: the kernel drops those that do not fit.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        with suppress(PermissionError):  # root of a user namespace has to use the default size
            self._socket.setsockopt(socket.SOL_SOCKET, _SEND_BUFFER, 1 << 22)  # a transaction is sent as a whole
        # The kernel assigns the port: two sockets of one process must not receive each other's answers.
        self._socket.bind((0, 0))
        self._numbers = count(1)

    def request(self, messages: Sequence[NetlinkMessage]) -> None:
        """Execute every message. Raises OSError."""
        failure: OSError | None = None
        for start in range(0, len(messages), _BATCH):
            failure = self._batch(messages[start : start + _BATCH]) or failure
        if failure is not None:
            raise failure

    def transact(self, begin: NetlinkMessage, messages: Sequence[NetlinkMessage], end: NetlinkMessage) -> None:
        """Execute changes atomically, all or none. Raises OSError."""
        sent = self._send([begin, *map(_answered, messages), end])
        # Even if one is rejected, each message in between gets an answer, and only these do.
        failure = self._answers(dict(list(sent.items())[1:-1]))
        if failure is not None:
            raise failure

    def dump(self, type: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield every object of a kind, as (message type, body)."""
        (asked,) = self._send([NetlinkMessage(type, DUMP, body)])
        while True:
            for kind, number, payload in self._receive():
                if number != asked:  # left over from a dump that was not read to its end
                    continue
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise _failure(payload)
                yield kind, payload

    def get(self, type: int, body: bytes) -> bytes | None:
        """Return one object, or None if it does not exist."""
        (asked,) = self._send([NetlinkMessage(type, 0, body)])
        while True:
            for kind, number, payload in self._receive():
                if number != asked:
                    continue
                if kind != _ERROR:
                    return payload
                failure = _failure(payload)
                if failure.errno in GONE:
                    return None
                raise failure

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _batch(self, messages: Sequence[NetlinkMessage]) -> OSError | None:
        return self._answers(self._send([_answered(each) for each in messages]))

    def _answers(self, waiting: dict[int, NetlinkMessage]) -> OSError | None:
        failure: OSError | None = None
        while waiting:
            for kind, number, payload in self._receive():
                message = waiting.pop(number, None) if kind == _ERROR else None
                if message is None:
                    continue
                (code,) = struct.unpack_from("=i", payload)
                if code and -code not in message.tolerated:
                    failure = failure or OSError(-code, f"{os.strerror(-code)} (netlink message {message.type})")
        return failure

    def _send(self, messages: Sequence[NetlinkMessage]) -> dict[int, NetlinkMessage]:
        numbered = {next(self._numbers): message for message in messages}
        self._socket.send(b"".join(_frame(number, message) for number, message in numbered.items()))
        return numbered

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        data = self._socket.recv(_BUFFER)
        offset = 0
        while offset + _HEADER.size <= len(data):
            length, kind, _, number, _ = _HEADER.unpack_from(data, offset)
            yield kind, number, data[offset + _HEADER.size : offset + length]
            offset += _aligned(length)


def attribute(kind: int, value: bytes) -> bytes:
    """Encode one attribute, padded."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(_aligned(length) - length)


def nested(kind: int, *attributes: bytes) -> bytes:
    """Encode an attribute that consists of attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def number(kind: int, value: int) -> bytes:
    """Encode an attribute of 32 bits."""
    return attribute(kind, struct.pack("=I", value))


def text(kind: int, value: str) -> bytes:
    """Encode a string attribute."""
    return attribute(kind, value.encode() + b"\0")


def attributes(body: bytes, offset: int = 0) -> dict[int, bytes]:
    """Return the attributes in a body after its fixed header of `offset` bytes."""
    found: dict[int, bytes] = {}
    while offset + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, offset)
        if length < _ATTRIBUTE.size:
            break
        found[kind & _TYPE_MASK] = body[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
    return found


def _answered(message: NetlinkMessage) -> NetlinkMessage:
    return NetlinkMessage(message.type, message.flags | ACK, message.body, message.tolerated)


def _frame(number: int, message: NetlinkMessage) -> bytes:
    length = _HEADER.size + len(message.body)
    header = _HEADER.pack(length, message.type, message.flags | REQUEST, number, 0)
    return header + message.body + bytes(_aligned(length) - length)


def _failure(payload: bytes) -> OSError:
    (code,) = struct.unpack_from("=i", payload)
    return OSError(-code, os.strerror(-code))


def _aligned(length: int) -> int:
    return (length + 3) & ~3
