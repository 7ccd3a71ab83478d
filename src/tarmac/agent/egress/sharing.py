"""Reports connection sharing between this gateway and its partner: an event, the partner's name, a backlog metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.datapath.egress import ConnectionSync

REASON = "StateSyncMissing"


class SharedConnections:
    """State of connection sharing.

    `is_candidate` tells if the node may own addresses; `names` maps node addresses to names.
    """

    def __init__(
        self,
        sync: ConnectionSync,
        node: str,
        recorder: Recorder | None,
        is_candidate: Callable[[], bool],
        names: Callable[[], Mapping[str, str]],
    ) -> None:
        self._sync, self._recorder, self._is_candidate, self._names = sync, recorder, is_candidate, names
        self._about = InvolvedObject("v1", "Node", node, uid=node)
        self._reported = ""
        self.backlog: int | None = None

    @property
    def partner(self) -> str:
        """The name of the node that connections are shared with at this moment."""
        return self._names().get(self._sync.partner, "") if self._sync.partner else ""

    async def update(self) -> bool:
        """Emit an event once if sharing fails. Return True if the node is able to share connections at all."""
        possible = await self._sync.possible()
        self.backlog = await self._sync.backlog()
        missing = "" if possible and not self._sync.problem else self._sync.problem or "conntrackd is not to be had"
        if not self._is_candidate():
            missing = ""
        if missing and missing != self._reported and self._recorder is not None:
            message = f"Connections of external services end with this gateway if their port had to change: {missing}."
            self._recorder.event(self._about, "Warning", REASON, message)
        self._reported = missing
        return possible
