"""What a node does when the server's store was restored from a backup that is older than what runs here.

The Node's annotation `tarmac.dev/restored` says when that was. A node that has not answered to that restore ends
nothing for being unknown to the server, and starts nothing that may run elsewhere: it tells what runs, again and again,
until every node has done so and somebody has decided about whatever runs otherwise than the store has it. Only then is
the time noted on disk, as answered; an agent that is killed before begins anew.

After a restore every revision that a client knows is gone, so pods are always listed afresh. Looking at the Node right
before a listing is believed is therefore enough: nothing is asked while a watch goes on.
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
    """Whether this node has a restore to answer to."""

    def __init__(self, client: Client, node: str, note: Path, at_stake: Callable[[], bool]) -> None:
        """`note` keeps the time of the restore that was answered to last; `at_stake`: whether anything runs here."""
        self._at_stake = at_stake
        self._client = client
        self._node = node
        self._note = note
        self._time = ""
        self.listing = False  # the whole state is being taken over: what is missing in it may just be unknown
        self.began = asyncio.Event()

    @property
    def active(self) -> bool:
        """Whether what runs may be newer than what the server knows."""
        return self.began.is_set()

    @asynccontextmanager
    async def around_listing(self) -> AsyncGenerator[None]:
        """Know of a restore before what is missing in the new state is believed to be gone."""
        await self._look()
        self.listing = True
        try:
            yield
        finally:
            self.listing = False

    async def tell(self, report: RunningReport) -> RunningAnswer:
        """Say what runs. Raises ApiError, ClientError."""
        report.restored = self._time
        body = msgspec.json.encode(report)
        reply = await self._client.call(
            "POST", running_path(self._node), body=body, headers=JSON_BODY, timeout=_SECONDS
        )
        return msgspec.json.decode(reply.body, type=RunningAnswer)

    def answered(self) -> None:
        """Nothing is left to decide; the next agent need not ask again."""
        unfinished = self._note.with_suffix(".new")
        unfinished.write_text(self._time)
        unfinished.replace(self._note)
        self.began.clear()
        _log.info("the restore of the server's store is answered", restored=self._time)

    async def _look(self) -> None:
        try:
            node = await self._client.resource(NODES).get(self._node)
        except NotFound:
            if self._at_stake():
                # The store may be older than this node. Once the Node is registered again it says whether that is so.
                raise Disconnected(f"the server does not know the node {self._node} yet") from None
            return
        time = (node["metadata"].get("annotations") or {}).get(RESTORED, "")
        if time and time != self._known():
            self._time = time
            if not self.active:
                _log.warning("the server's store was restored: nothing that runs is ended", restored=time)
            self.began.set()

    def _known(self) -> str:
        try:
            return self._note.read_text()
        except OSError:
            return ""
