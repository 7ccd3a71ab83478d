"""Looks after what was pushed: measures it for the quota, and removes what has outlived its namespace.

A repository is not an object, so nothing deletes it with its namespace. For which namespace the repositories of a name
were pushed is kept in a file by its uid; when that namespace is gone, or another has its name, the registry is stopped,
what is there is removed, and the registry is started again. The server gives out no token for them meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

import msgspec

from tarmac.apps.registry.files import RegistryFiles
from tarmac.apps.registry.pushed import remove, usage
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.server.reader import decode
from tarmac.server.security.files import write_private
from tarmac.server.security.repositoryroom import RepositoryRoom
from tarmac.store.interface import Store

EVERY = 10.0
_NAMESPACES = "core/namespaces"
_log = log("registry")
_read = msgspec.json.Decoder(dict[str, str]).decode


class Upkeep:
    """Of one registry. `room` is what the server is told."""

    def __init__(self, files: RegistryFiles, store: Store, room: RepositoryRoom, clock: Clock) -> None:
        self._files = files
        self._store = store
        self._room = room
        self._clock = clock
        self._outlived: set[str] = set()
        self.needed = asyncio.Event()  # something is to be removed, for which the registry must not run
        if files.owners.exists():
            room.owners |= _read(files.owners.read_bytes())

    async def run(self) -> NoReturn:
        """Look every few seconds, until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(EVERY)

    async def look(self) -> None:
        """Measure, and find what is nobody's any more."""
        room, used = self._room, await asyncio.to_thread(usage, self._files.images)
        room.used = used
        there = {entry.name: str(decode(entry)["metadata"]["uid"]) for entry in self._store.list(_NAMESPACES).entries}
        for namespace in used:  # what was there before anybody took note is kept for whoever has the name now
            room.owners.setdefault(namespace, there.get(namespace, ""))
        for namespace in room.owners.keys() - used.keys():  # a token was given out, and nothing pushed yet
            if room.owners[namespace] != there.get(namespace):
                del room.owners[namespace]
        await asyncio.to_thread(self._write, dict(room.owners))
        self._outlived = {each for each in used if room.owners[each] != there.get(each)}
        if self._outlived:
            self.needed.set()

    async def clean(self) -> None:
        """Remove what was found. Nobody may push meanwhile: call it while the registry does not run."""
        self.needed.clear()
        outlived, self._outlived = self._outlived, set()
        if outlived:
            await asyncio.to_thread(remove, self._files.images, outlived)
            for namespace in outlived:  # only now may a namespace of that name push
                self._room.owners.pop(namespace, None)
            _log.info("removed what has outlived its namespace", namespaces=sorted(outlived))

    def _write(self, owners: dict[str, str]) -> None:
        text = msgspec.json.encode(owners, order="sorted")
        known = self._files.owners.read_bytes() if self._files.owners.exists() else b""
        if text != known:
            write_private(self._files.owners, text)
