"""Maintains pushed images: measures usage for the quota, and removes repositories of deleted namespaces.

A repository is not an API object, so it is not deleted with its namespace. A file keeps the uid of the namespace of
each repository; when that namespace is gone, or a new one has its name, the registry is stopped, the repositories are
removed, and the registry is started again. The server issues no token for them meanwhile. The same restart, with a new
key, ends the tokens of a namespace before a new one of its name gets any.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

import msgspec

from tarmac.apps.registry.pushed import free_bytes, remove, remove_idle_uploads, usage
from tarmac.apps.registry.registrypaths import RegistryFiles
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.server.reader import decode
from tarmac.server.security.keys.privatefiles import write_private
from tarmac.server.security.tokens.repositoryroom import RepositoryRoom
from tarmac.store.interface import Store

INTERVAL = 10.0
IDLE_UPLOAD = 900.0
"""Age in seconds of an upload's last byte after which it counts as interrupted and is removed."""

_NAMESPACES = "core/namespaces"
_log = log("registry")
_read = msgspec.json.Decoder(dict[str, str]).decode


class Upkeep:
    """Maintains one registry. `room` is shared with the server."""

    def __init__(self, files: RegistryFiles, store: Store, room: RepositoryRoom, clock: Clock) -> None:
        self._files = files
        self._store = store
        self._room = room
        self._clock = clock
        self._outlived: set[str] = set()
        self._looking = asyncio.Lock()
        self.needed = asyncio.Event()  # set if images must be removed, or tokens ended, by a restart
        if files.owners.exists():
            room.owners |= _read(files.owners.read_bytes())

    async def run(self) -> NoReturn:
        """Check every few seconds, until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(INTERVAL)

    async def look(self) -> None:
        """Measure usage, and find repositories of deleted namespaces."""
        async with self._looking:  # the owners are a file
            await self._look()

    async def _look(self) -> None:
        await asyncio.to_thread(remove_idle_uploads, self._files.images, self._clock.now() - IDLE_UPLOAD)
        room, used = self._room, await asyncio.to_thread(usage, self._files.images)
        room.used = used
        room.free = await asyncio.to_thread(free_bytes, self._files.folder)
        there = {entry.name: str(decode(entry)["metadata"]["uid"]) for entry in self._store.list(_NAMESPACES).entries}
        for namespace in used:
            # Without a recorded owner it belongs to the holder of the tokens, which pushed it after the last look, or
            # to the current namespace of that name.
            room.owners.setdefault(namespace, room.holders.get(namespace) or there.get(namespace, ""))
        for namespace in room.owners.keys() - used.keys():  # a token was issued, but nothing has been pushed yet
            if room.owners[namespace] != there.get(namespace):
                del room.owners[namespace]
        await asyncio.to_thread(self._write, dict(room.owners))
        self._outlived = {each for each in used if room.owners[each] != there.get(each)}
        recreated = any(there.get(each, uid) != uid for each, uid in room.holders.items())
        if self._outlived or recreated:
            self.needed.set()

    async def clean(self) -> None:
        """Remove the found repositories, and the record of tokens that the next registry does not accept.

        Call only while the registry is stopped, and after its key was replaced: no push may happen meanwhile.
        """
        await self.look()  # again: a token of an earlier namespace was valid until the registry stopped
        self.needed.clear()
        self._room.key_replaced()
        outlived, self._outlived = self._outlived, set()
        if outlived:
            await asyncio.to_thread(remove, self._files.images, outlived)
            for namespace in outlived:  # only now may a new namespace of that name push
                self._room.owners.pop(namespace, None)
            _log.info("repositories of deleted namespaces removed", namespaces=sorted(outlived))

    def _write(self, owners: dict[str, str]) -> None:
        text = msgspec.json.encode(owners, order="sorted")
        known = self._files.owners.read_bytes() if self._files.owners.exists() else b""
        if text != known:
            write_private(self._files.owners, text)
