"""What one connection may cost: sizes in bytes, times in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Settings of a listener."""

    body: int = 3 * 1024 * 1024  # larger request bodies get 413
    # Bodies that are still coming, of all connections together: beyond it large ones get 429; small ones are always
    # read. What is sent without a credential that is good has a small share of its own and takes nothing of the other.
    unfinished_bodies: int = 128 * 1024 * 1024
    strangers_bodies: int = 16 * 1024 * 1024
    small_body: int = 64 * 1024
    head: int = 64 * 1024  # a larger request line with its headers gets 431
    pipeline: int = 64  # complete requests waiting on one connection before we stop reading from it

    strangers: int = 1024  # connections that have not shown who they are; for one more, an old one is closed

    handshake_time: float = 10.0
    head_time: float = 30.0  # from the first byte of a request to the end of its headers
    body_time: float = 60.0  # from the first byte of a request to the end of its body
    answer_time: float = 60.0  # for a handler that waits; then 504
    write_time: float = 60.0  # for a client that does not take its answer
    # Go clients reuse connections for 90 s, and may not retry a POST on one that we have just closed.
    idle_time: float = 180.0
    linger_time: float = 5.0  # how long a refused client may go on sending, so that it can read the refusal
    sweep_interval: float = 1.0  # how often deadlines are looked at, which is their precision

    stream_buffer: int = 8 * 1024 * 1024  # unsent bytes after which a slow stream is cut off
    # Of all slow streams together: where there are many, each may have its share only, but always the least.
    stream_buffers: int = 256 * 1024 * 1024
    stream_buffer_least: int = 512 * 1024  # before that a transport does not tell
    gzip_from: int = 128 * 1024  # bodies below this are never compressed, as in Kubernetes
    gzip_inline: int = 512 * 1024  # larger ones are compressed in a thread


class Unfinished:
    """Bytes of large request bodies that the connections of one listener hold and that are not complete."""

    __slots__ = ("held", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0


class Shares:
    """Who may hold how much of unfinished bodies: those who are known, and all others."""

    __slots__ = ("known", "strangers")

    def __init__(self, limits: ListenerLimits) -> None:
        self.known = Unfinished(limits.unfinished_bodies)
        self.strangers = Unfinished(limits.strangers_bodies)


class Backlogs:
    """What waits for clients that do not read, on the streams of one listener: they share it evenly."""

    __slots__ = ("_limits", "slow")

    def __init__(self, limits: ListenerLimits) -> None:
        self._limits = limits
        self.slow = 0  # streams that something waits on

    @property
    def share(self) -> int:
        """Bytes that may wait on each."""
        limits = self._limits
        return min(limits.stream_buffer, max(limits.stream_buffer_least, limits.stream_buffers // max(1, self.slow)))
