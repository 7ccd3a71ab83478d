"""How calls fail.

GrpcError           has a code: the peer's, or one of ours when the peer said nothing
  MessageTooLong    the answer is there, but more than is read
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from urllib.parse import unquote

from tarmac.base.digits import whole


class Code(IntEnum):
    """Why a call failed, as far as anybody asks. Others have a number only."""

    CANCELLED = 1
    UNKNOWN = 2
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
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
    """What the peer may have done, it did; its answer is not read."""

    def __init__(self, length: int, longest: int) -> None:
        super().__init__(Code.RESOURCE_EXHAUSTED, f"a message of {length} bytes; {longest} are read")


def outcome(headers: Mapping[str, str]) -> GrpcError | None:
    """What the last headers say became of a call."""
    status = headers.get("grpc-status", "")
    if status == "0":
        return None
    code = whole(status, 1 << 31)
    if code is None:
        return GrpcError(Code.UNKNOWN, f"an answer without gRPC's status, HTTP status {headers.get(':status')}")
    return GrpcError(code, unquote(headers.get("grpc-message", "")))
