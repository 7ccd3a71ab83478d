"""Rotation of the key for Secrets at rest, and re-encryption of values sealed with the old key.

Secrets keep their content and get a new revision. Values written up to the revision at which the last server began to
seal with the new key (the floor) are rewritten in small batches; if a client updates one concurrently, that write has
already sealed it with the new key. History is compacted before the old key is retired, since its old versions could not
be opened any more. A restore brings back old values and may give them new revisions, so the rewrite starts over after
it.
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
from tarmac.server.security.keys.encryption import RECORD, SEALED_BUCKETS, encryption_record
from tarmac.server.security.keys.keyrecords import ENCRYPTION, KeptKey, KeyRecord, with_new_key
from tarmac.server.security.keys.rotation import KeyRotation
from tarmac.server.security.keys.trusting import paged, silent_servers
from tarmac.store.interface import Entry, Missing, RevisionConflict, Store, unsplice

_MAX_BATCH, _MAX_BATCH_BYTES = 32, 1 << 18
_BATCH_INTERVAL = 0.005  # seconds between batches, so that clients' writes go first
_log = log("rotation")


class EncryptionRotation(KeyRotation):
    """The encryption rotation of one cluster. `randomness` generates keys and must not be seeded."""

    kind = ENCRYPTION

    def __init__(self, store: Store, file: Path, clock: Clock, randomness: Randomness) -> None:
        super().__init__(store, lambda: encryption_record(file, clock.now()), clock)
        self._randomness = randomness

    def stage(self, record: KeyRecord) -> str:
        """Return the stage's name."""
        if record.settled or not record.switched:
            return super().stage(record)
        return "sealed" if record.rewritten else "sealing"

    async def begin(self) -> None:
        """Add a new key to the trusted ones. If the file already has several keys, its first one replaces the rest."""

        def begun(record: KeyRecord) -> KeyRecord:
            if record.settled:
                return self.with_new_key(record)
            return msgspec.structs.replace(record, rewritten=False) if record.step == 0 else record

        await self.stored.change(begun)

    def with_new_key(self, record: KeyRecord) -> KeyRecord:
        """Return the record with a newly generated key."""
        key = self._randomness.randbytes(32)
        kept = KeptKey(base64.b64encode(key).decode(), rfc3339(self.clock.now()))
        # Key ids are never reused: a restored backup may contain values sealed long ago.
        return with_new_key(record, f"key-{sha256(key).hexdigest()[:12]}", kept)

    def retirable(self, record: KeyRecord) -> bool:
        """Return True once no Secret needs the old key."""
        return record.switched and record.rewritten and record.step > 0

    async def advance(self, *, force: bool = False) -> None:
        """Switch sealing to the new key, then rewrite all values with it."""
        await super().advance(force=force)
        # A server killed during a retirement left `retiring` set; the next one completes it before anything else.
        await self._finish()
        record = self.record
        if record.step == 0 or record.settled or not record.switched or record.rewritten:
            return
        if not self._floor(record):
            if not await self.waiting(record):
                # Taken after the last server reported that it seals with the new key: a floor from before would miss
                # values that it still sealed with the old one.
                floor = self.store.revision
                await self.stored.change(
                    lambda each: msgspec.structs.replace(each, floor=floor) if each == record else each
                )
            return
        total = 0
        while count := await self._rewrite(record.floor):  # repeat: a concurrent write may have failed
            total += count
        if await self.stored.change(
            lambda each: msgspec.structs.replace(each, rewritten=True) if each == record else each
        ):
            _log.info("Secrets are sealed with the new key", key=record.signing, count=total)

    async def retire(self) -> None:
        """Compact the history that only the old key opens, then retire the key."""
        # First write the record under the new key: its last version under the old key then becomes history and is
        # compacted.
        await self.stored.change(
            lambda each: msgspec.structs.replace(each, retiring=True) if self._has_old(each) else each
        )
        await self._finish()

    def _has_old(self, record: KeyRecord) -> bool:
        return self.retirable(record) and not record.settled

    async def _finish(self) -> None:
        """Complete a retirement, including one interrupted by a crash."""
        if self.record.retiring:
            # Compact first: after a crash between the two the old key still opens the history, the other order would
            # leave history that no key opens.
            await self.store.compact(self.store.revision)
            await super().retire()

    async def waiting(self, record: KeyRecord, *, force: bool = False) -> list[str]:
        """List the servers that still seal with the old key; then the number of values sealed with it."""
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
        """Return the highest revision that may be sealed with the old key; 0 if unknown, also after a restore."""
        restored = self.store.get(*RESTORES)
        return record.floor if restored is None or restored.revision <= record.floor else 0

    async def silent(self, record: KeyRecord, *, force: bool) -> list[str]:
        """List the servers that could not open values sealed with the new key."""
        return await silent_servers(self.store, self.clock, opens_with(record.newest))

    async def obstacles(self) -> list[str]:
        """Return an obstacle while values are sealed with the old key."""
        record = self.record
        if record.settled or self.retirable(record):
            return []
        return ["Secrets are still sealed with the old key: --status says how far it has come"]

    async def _rewrite(self, floor: int) -> int:
        """Rewrite values up to revision `floor` and return their number. Raises Unavailable."""
        count = 0
        for bucket in sorted(SEALED_BUCKETS):
            after, more = "", True
            while more:
                page = self.store.list(bucket, after=after, limit=_MAX_BATCH)
                for batch in _batches([each for each in page.entries if _is_old(bucket, each, floor)]):
                    # Repeatable: a server killed here starts over, and entries that it has written are above the floor
                    # already.
                    count += await self._seal_anew(bucket, batch)
                    await self.clock.sleep(_BATCH_INTERVAL)
                more = bool(page.remaining)
                # By name, not by position: entries deleted between two pages must not shift the rest past the reader.
                after = page.entries[-1].name if page.entries else after
                await self.clock.sleep(0)
        return count

    async def _seal_anew(self, bucket: str, batch: list[Entry]) -> int:
        """Write the entries unchanged. An entry changed or deleted concurrently needs no rewrite."""

        async def write(entry: Entry) -> None:
            # Compare-and-swap: overwriting unconditionally would undo a client's write made since the page was read.
            await self.store.update(bucket, entry.name, unsplice(entry), entry.revision)

        # All of the batch are awaited, failed ones too: an early return would leave writes without an owner.
        done = await asyncio.gather(*(write(each) for each in batch), return_exceptions=True)
        for each in done:
            if isinstance(each, BaseException) and not isinstance(each, RevisionConflict | Missing):
                raise each
        return len(batch)


def _is_old(bucket: str, entry: Entry, floor: int) -> bool:
    # The record of these keys is deliberately sealed with the oldest key.
    return entry.revision <= floor and (bucket, entry.name) != RECORD


def _batches(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Split entries into batches small enough for one iteration of the event loop."""
    batch, size = list[Entry](), 0
    for entry in entries:
        if batch and size + len(entry.raw) > _MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.raw)
    if batch:
        yield batch
