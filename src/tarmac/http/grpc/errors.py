"""Errors of gRPC calls.

GrpcError           has a code: the peer's, or a local one when the peer sent none
  MessageTooLong    the response exceeds the size limit
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from urllib.parse import unquote

from tarmac.base.digits import whole_number


class Code(IntEnum):
    """The status codes that callers use. All others are plain numbers."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """A call failed. The text is the peer's, if it gave one."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or f"gRPC status {code}")
        self.code = code


class MessageTooLong(GrpcError):
    """The peer may have executed the call; its response was not read."""

    def __init__(self, length: int, longest: int) -> None:
        super().__init__(Code.RESOURCE_EXHAUSTED, f"a message of {length} bytes; {longest} are read")


def outcome(headers: Mapping[str, str]) -> GrpcError | None:
    """Return the error in the trailers of a call, or None."""
    status = headers.get("grpc-status", "")
    if status == "0":
        return None
    code = whole_number(status, 1 << 31)
    if code is None:
        return GrpcError(Code.UNKNOWN, f"an answer without gRPC's status, HTTP status {headers.get(':status')}")
    return GrpcError(code, unquote(headers.get("grpc-message", "")))
