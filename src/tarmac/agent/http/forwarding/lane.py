"""Common base of the lanes of both kinds of client: back-pressure applies to the client's whole connection."""

from __future__ import annotations

from typing import Generic, TypeVar

from tarmac.agent.http.clientend import ClientEnd

F = TypeVar("F", bound=ClientEnd)


class ClientLane(Generic[F]):
    """The part of a client's connection that belongs to one connection to the pod; see `podend.Lane`."""

    def __init__(self, forward: F) -> None:
        self._forward = forward

    @property
    def backed_up(self) -> bool:
        return self._forward.backed_up

    def hold(self, held: bool) -> None:
        self._forward.hold(held)
