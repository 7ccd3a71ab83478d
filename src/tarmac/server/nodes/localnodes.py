"""Routes to nodes that live in this process, such as simulated ones: they have neither a tunnel nor an address."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from tarmac.http.clientrequest import Dial
from tarmac.server.nodes.nodeendpoints import NodeRoute

FindDial = Callable[[str], Dial | None]
"""Returns a way to connect to a node of this process, or None."""


class LocalNodes:
    """The nodes of this process: none until they are served."""

    def __init__(self) -> None:
        self._find: FindDial = lambda _node: None

    def find(self, node: str) -> NodeRoute | None:
        """Return the route to a node, or None."""
        dial = self._find(node)
        return None if dial is None else NodeRoute(dial, node)

    @contextmanager
    def served(self, find: FindDial) -> Generator[None]:
        """Find nodes with this function inside the block."""
        before, self._find = self._find, find
        try:
            yield
        finally:
            # On cancellation, too: a route to a node that has stopped would hide its tunnel.
            self._find = before
