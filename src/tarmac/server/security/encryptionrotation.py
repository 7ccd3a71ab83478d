"""Rotating the key of Secrets at rest, and sealing anew what the old one has sealed.

Secrets keep what they say and get another revision. What was written up to the revision at which the last server began
to seal with the new key is rewritten, a few at a time; where somebody else wrote one meanwhile, that write has sealed
it. Versions that are only history are forgotten before the old key is, since nobody could open them any more. After
a restore, which brings values back as they were sealed and may give them other revisions, it begins anew.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from tarmac.api.restored import RESTORES
from tarmac.api.rotations import opens_with, seals_with
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.server.security.encryption import RECORD, SEALED_BUCKETS, encryption_record
from tarmac.server.security.keyrecords import ENCRYPTION, KeptKey, KeyRecord, with_new_key
from tarmac.server.security.rotation import Rotation
from tarmac.server.security.trusting import paged, silent_servers
from tarmac.store.interface import Conflict, Entry, Missing, Store, unsplice

_AT_ONCE, _BYTES_AT_ONCE = 32, 1 << 18
_PAUSE = 0.005  # between batches: writes of others go first
_log = log("rotation")


class EncryptionRotation(Rotation):
    """The rotation of one cluster. `randomness` makes keys, so it has no seed."""

    kind = ENCRYPTION

    def __init__(self, store: Store, file: Path, clock: Clock, randomness: Randomness) -> None:
        super().__init__(store, lambda: encryption_record(file, clock.now()), clock)
        self._randomness = randomness

    def stage(self, record: KeyRecord) -> str:
        """What it is called."""
        if record.settled or not record.switched:
            return super().stage(record)
        return "sealed" if record.rewritten else "sealing"

    async def begin(self) -> None:
        """Have a new key trusted. Where the file has several already, its first one takes the others' place."""

        def begun(record: KeyRecord) -> KeyRecord:
            if record.settled:
                return self.with_new_key(record)
            return msgspec.structs.replace(record, rewritten=False) if record.step == 0 else record

        await self.stored.change(begun)

    def with_new_key(self, record: KeyRecord) -> KeyRecord:
        """One more."""
        key = self._randomness.randbytes(32)
        kept = KeptKey(base64.b64encode(key).decode(), rfc3339(self.clock.now()))
        # No key ever has another one's name: values of long ago come back with backups.
        return with_new_key(record, f"key-{sha256(key).hexdigest()[:12]}", kept)

    def retirable(self, record: KeyRecord) -> bool:
        """Not while Secrets need it."""
        return record.switched and record.rewritten and record.step > 0

    async def advance(self, *, force: bool = False) -> None:
        """Have the new key seal, then everything sealed with it."""
        await super().advance(force=force)
        await self._finish()
        record = self.record
        if record.step == 0 or record.settled or not record.switched or record.rewritten:
            return
        if not self._floor(record):
            if not await self.waiting(record):
                floor = self.store.revision
                await self.stored.change(
                    lambda each: msgspec.structs.replace(each, floor=floor) if each == record else each
                )
            return
        total = 0
        while count := await self._rewrite(record.floor):  # again: a write that came in between may have failed
            total += count
        if await self.stored.change(
            lambda each: msgspec.structs.replace(each, rewritten=True) if each == record else each
        ):
            _log.info("Secrets are sealed with a new key", key=record.signing, count=total)

    async def retire(self) -> None:
        """Forget what only the old key opens, then the key."""
        # The record itself first: its last version under the old key is then one that can be forgotten.
        await self.stored.change(
            lambda each: msgspec.structs.replace(each, retiring=True) if self._has_old(each) else each
        )
        await self._finish()

    def _has_old(self, record: KeyRecord) -> bool:
        return self.retirable(record) and not record.settled

    async def _finish(self) -> None:
        """What is left of a retirement, also of one that was killed on its way."""
        if self.record.retiring:
            await self.store.compact(self.store.revision)
            await super().retire()

    async def waiting(self, record: KeyRecord, *, force: bool = False) -> list[str]:
        """After the switch: servers that seal with the old key, then the Secrets that it sealed."""
        if not record.switched:
            return await super().waiting(record, force=force)
        if record.settled or record.rewritten:
            return []
        if not self._floor(record):
            silent = await silent_servers(self.store, self.clock, seals_with(record.signing))
            return [*silent, *self.unseen(record)]
        left = 0
        for bucket in SEALED_BUCKETS:
            async for each in paged(self.store, bucket, self.clock):
                left += _is_old(bucket, each, record.floor)
        return [f"{left} objects to be sealed with the new key"]

    def _floor(self, record: KeyRecord) -> int:
        """Up to which revision values may be of the old key; 0 when that is to be found out, also after a restore."""
        restored = self.store.get(*RESTORES)
        return record.floor if restored is None or restored.revision <= record.floor else 0

    async def silent(self, record: KeyRecord, *, force: bool) -> list[str]:
        """Servers that could not read what it seals."""
        return await silent_servers(self.store, self.clock, opens_with(record.newest))

    async def obstacles(self) -> list[str]:
        """Secrets of the old key."""
        record = self.record
        if record.settled or self.retirable(record):
            return []
        return ["Secrets are still sealed with the old key: --status says how far it has come"]

    async def _rewrite(self, floor: int) -> int:
        """Seal anew what was written up to there; how many that were. Raises Unavailable."""
        count = 0
        for bucket in sorted(SEALED_BUCKETS):
            after, more = "", True
            while more:
                page = self.store.list(bucket, after=after, limit=_AT_ONCE)
                for batch in _batches([each for each in page.entries if _is_old(bucket, each, floor)]):
                    count += await self._seal_anew(bucket, batch)
                    await self.clock.sleep(_PAUSE)
                more = bool(page.remaining)
                after = page.entries[-1].name if page.entries else after
                await self.clock.sleep(0)
        return count

    async def _seal_anew(self, bucket: str, batch: list[Entry]) -> int:
        """Write these as they are. One that has changed or gone meanwhile needs no rewriting."""

        async def write(entry: Entry) -> None:
            await self.store.update(bucket, entry.name, unsplice(entry), entry.revision)

        done = await asyncio.gather(*(write(each) for each in batch), return_exceptions=True)
        for each in done:
            if isinstance(each, BaseException) and not isinstance(each, Conflict | Missing):
                raise each
        return len(batch)


def _is_old(bucket: str, entry: Entry, floor: int) -> bool:
    # The record of these keys is sealed with the oldest one on purpose.
    return entry.revision <= floor and (bucket, entry.name) != RECORD


def _batches(entries: list[Entry]) -> Iterator[list[Entry]]:
    """As many as may be written in one turn of the loop."""
    batch, size = list[Entry](), 0
    for entry in entries:
        if batch and size + len(entry.raw) > _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.raw)
    if batch:
        yield batch
