"""What the lanes of both kinds of client have in common: they are held up, and hold up, with the client as a whole."""

from __future__ import annotations

from typing import Generic, TypeVar

from tarmac.agent.http.clientend import ClientEnd

F = TypeVar("F", bound=ClientEnd)


class ClientLane(Generic[F]):
    """A part of a client's connection that leads to one connection to the pod; see `podend.Lane`."""

    def __init__(self, forward: F) -> None:
        self._forward = forward

    @property
    def backed_up(self) -> bool:
        return self._forward.backed_up

    def hold(self, held: bool) -> None:
        self._forward.hold(held)
