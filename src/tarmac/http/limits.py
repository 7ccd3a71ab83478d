"""Resource limits of a connection: sizes in bytes, times in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Settings of a listener."""

    body: int = 3 * 1024 * 1024  # larger request bodies get 413
    # Incomplete bodies of all connections together: beyond it large ones get 429; small ones are always read.
    # Unauthenticated clients have a small separate share and take nothing of the main one.
    unfinished_bodies: int = 128 * 1024 * 1024
    unauthenticated_bodies: int = 16 * 1024 * 1024
    small_body: int = 64 * 1024
    head: int = 64 * 1024  # a larger request line with its headers gets 431
    pipeline: int = 64  # complete requests waiting on one connection before reading pauses

    unauthenticated: int = 1024  # unauthenticated connections; for one more, an old one is closed

    handshake_time: float = 10.0
    head_time: float = 30.0  # from the first byte of a request to the end of its headers
    body_time: float = 60.0  # from the first byte of a request to the end of its body
    answer_time: float = 60.0  # for a handler that waits; then 504
    write_time: float = 60.0  # for a client that does not read its response
    # Go clients reuse connections for 90 s, and may not retry a POST on one that was just closed.
    idle_time: float = 180.0
    linger_time: float = 5.0  # for a refused client to finish sending, so that it can read the refusal
    sweep_interval: float = 1.0  # between deadline checks; also their precision

    stream_buffer: int = 8 * 1024 * 1024  # unsent bytes after which a slow stream is cut off
    # Of all slow streams together: with many, each gets an equal share, but at least the minimum.
    stream_buffers: int = 256 * 1024 * 1024
    min_stream_buffer: int = 512 * 1024  # below that a transport does not signal back-pressure
    gzip_from: int = 128 * 1024  # smaller bodies are never compressed, as in Kubernetes
    gzip_inline: int = 512 * 1024  # larger ones are compressed in a thread


class Unfinished:
    """Bytes of large, incomplete request bodies that the connections of one listener hold."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0


class Shares:
    """Budgets for incomplete bodies: of authenticated and of unauthenticated clients."""

    __slots__ = ("authenticated", "unauthenticated")

    def __init__(self, limits: ListenerLimits) -> None:
        self.authenticated = Unfinished(limits.unfinished_bodies)
        self.unauthenticated = Unfinished(limits.unauthenticated_bodies)


class Backlogs:
    """Unsent bytes of the slow streams of one listener: they share the budget evenly."""

    __slots__ = ("_limits", "slow")

    def __init__(self, limits: ListenerLimits) -> None:
        self._limits = limits
        self.slow = 0  # streams with unsent bytes

    @property
    def share(self) -> int:
        """Budget of one stream, in bytes."""
        limits = self._limits
        return min(limits.stream_buffer, max(limits.min_stream_buffer, limits.stream_buffers // max(1, self.slow)))
