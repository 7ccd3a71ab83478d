"""Follows the members of an etcd that Tarmac runs: the endpoints that calls may go to, and which members respond."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.statefiles import replace_state
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.interface import Unavailable

_INTERVAL: Final = 5.0
_log = log("store.etcd")


class MemberFollower:
    """Reads the list of members again and again. `answering` has the voters by name."""

    def __init__(self, client: EtcdClient, stated: Sequence[str], file: Path, clock: Clock) -> None:
        self._client = client
        self._stated = stated
        self._file = file
        self._clock = clock
        self._kept: list[str] = []
        self.answering: dict[str, bool] = {}

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self.look()
            except Unavailable as error:
                _log.debug("members of etcd cannot be listed, will retry", error=str(error))
            except OSError as error:
                _log.warning("members of etcd cannot be stored, will retry", file=str(self._file), error=str(error))
            await self._clock.sleep(_INTERVAL)

    async def look(self) -> None:
        """Read the list, try each member, and keep the endpoints for the next start. Raises Unavailable, OSError."""
        voters = [each for each in await self._client.members() if each.name and not each.is_learner]
        places = {each.name: endpoint_of(each) for each in voters}
        self.answering = {name: await self._client.responds(place) for name, place in places.items() if place}
        # Members that the URL names come first: the one on this host is the nearest.
        found = sorted(filter(None, places.values()), key=lambda each: (each not in self._stated, each))
        if found and found != self._kept:
            self._client.use(found)
            replace_state(self._file, "\n".join(found).encode() + b"\n")
            self._kept = found


def endpoint_of(member: pb.Member) -> str:
    """Return HOST:PORT of a member; empty for one that has never started."""
    return member.client_urls[0].partition("://")[2] if member.client_urls else ""
