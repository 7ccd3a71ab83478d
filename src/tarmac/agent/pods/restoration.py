"""Protects running pods after the server's store was restored from an older backup.

The Node's annotation `tarmac.dev/restored` has the time of the restore. A node that has not completed that restore ends
no pod for being unknown to the server and starts no pod that may run elsewhere. It reports its running pods repeatedly,
until every node has done so and every difference from the store has been decided. Only then is the time written to disk
as completed; an agent killed earlier starts over.

A restore invalidates every revision that clients know, so pods are always listed again. Reading the Node right before
each list is therefore enough; watches need no check.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tarmac.api.identities import RESTORED
from tarmac.api.restored import RunningAnswer, RunningReport, running_path
from tarmac.api.status import NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.resources import JSON_BODY
from tarmac.client.targets.untyped import NODES

_SECONDS = 10.0
_log = log("pods")


class Restoration:
    """State of the restore that this node has to complete, if any."""

    def __init__(self, client: Client, node: str, note: Path, at_stake: Callable[[], bool]) -> None:
        """`note` stores the time of the last completed restore; `at_stake` returns True if any pod runs here."""
        self._at_stake = at_stake
        self._client = client
        self._node = node
        self._note = note
        self._time = ""
        self.listing = False  # a list is being applied: a pod missing in it may be unknown rather than deleted
        self.began = asyncio.Event()

    @property
    def active(self) -> bool:
        """True while running pods may be newer than the server's store."""
        return self.began.is_set()

    @asynccontextmanager
    async def around_listing(self) -> AsyncGenerator[None]:
        """Detect a restore before pods missing in the new list are treated as deleted."""
        await self._look()
        self.listing = True
        try:
            yield
        finally:
            self.listing = False

    async def tell(self, report: RunningReport) -> RunningAnswer:
        """Report the running pods. Raises ApiError, ClientError."""
        report.restored = self._time
        body = msgspec.json.encode(report)
        reply = await self._client.call(
            "POST", running_path(self._node), body=body, headers=JSON_BODY, timeout=_SECONDS
        )
        return msgspec.json.decode(reply.body, type=RunningAnswer)

    def answered(self) -> None:
        """Record the restore as completed, for later agents too."""
        unfinished = self._note.with_suffix(".new")
        unfinished.write_text(self._time)
        unfinished.replace(self._note)
        self.began.clear()
        _log.info("restore of the server's store completed", restored=self._time)

    async def _look(self) -> None:
        try:
            node = await self._client.resource(NODES).get(self._node)
        except NotFound:
            if self._at_stake():
                # The store may be older than this node. The Node says so once it is registered again.
                raise Disconnected(f"the server does not know the node {self._node} yet") from None
            return
        time = (node["metadata"].get("annotations") or {}).get(RESTORED, "")
        if time and time != self._known():
            self._time = time
            if not self.active:
                _log.warning("server's store was restored: running pods are kept until it is settled", restored=time)
            self.began.set()

    def _known(self) -> str:
        try:
            return self._note.read_text()
        except OSError:
            return ""
