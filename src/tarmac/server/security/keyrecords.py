"""The cluster's own keys as the store has them: one record for each kind of key, followed by every server.

The records stand in a bucket of their own (`tarmac/keys`), sealed like Secrets and in no API; files of servers are
copies. A cluster begins with the keys of its files, and has a record from its first rotation on. Every step is one
guarded write of the record: whoever takes it, on whichever server, takes it once, and after a kill the next one goes
on from what is written.

    new key is trusted  →  new key signs, or seals  →  old key is retired
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tarmac.base.clock import Clock, parse_rfc3339, rfc3339
from tarmac.store.interface import Conflict, Entry, Exists, Missing, Reads, Store

BUCKET: Final = "tarmac/keys"
TOKENS: Final = "tokens"
AUTHORITIES: Final = "ca"
ENCRYPTION: Final = "encryption"


class KeptKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """One key, as a record has it. An authority has its certificate, and the one that the authority before gave it."""

    pem: str  # the private key; of encryption, in base64
    made: str = ""
    certificate: str = ""
    cross: str = ""


class KeyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every key that is trusted, by id; which of them signs or seals, and since when it has been so.

    `step` counts changes. Of encryption: Secrets up to the revision `floor` are to be sealed anew, until `rewritten`;
    `retiring` says that the old key is on its way out.
    """

    metadata: dict[str, str]
    keys: dict[str, KeptKey]
    signing: str
    since: str
    step: int = 0
    floor: int = 0
    rewritten: bool = False
    retiring: bool = False

    @property
    def newest(self) -> str:
        """The id of the key that was added last."""
        return list(self.keys)[-1]

    @property
    def settled(self) -> bool:
        """Whether no rotation is under way."""
        return len(self.keys) == 1

    @property
    def switched(self) -> bool:
        """Whether the newest key signs."""
        return self.newest == self.signing

    @property
    def changed(self) -> float:
        """When it became as it is."""
        return parse_rfc3339(self.since)

    def encoded(self) -> bytes:
        """As it is stored."""
        return msgspec.json.encode(self)


def first_record(name: str, key: str, kept: KeptKey, now: float) -> KeyRecord:
    """The record of a cluster that goes by the key of its files."""
    return KeyRecord({"name": name}, {key: kept}, key, rfc3339(now))


def decode_record(raw: bytes) -> KeyRecord:
    """What a stored record says, with or without the version that the store adds."""
    found = msgspec.json.decode(raw, type=KeyRecord)
    return msgspec.structs.replace(found, metadata={"name": found.metadata["name"]})


def read_record(store: Reads, name: str) -> KeyRecord | None:
    """The visible record; None before the first rotation."""
    entry = store.get(BUCKET, name)
    return None if entry is None else decode_record(entry.raw)


def with_new_key(record: KeyRecord, key: str, kept: KeptKey) -> KeyRecord:
    """One more key is trusted."""
    return msgspec.structs.replace(record, keys={**record.keys, key: kept}, floor=0, rewritten=False)


def with_newest_signing(record: KeyRecord) -> KeyRecord:
    """The key that was added last signs."""
    return msgspec.structs.replace(record, signing=record.newest)


def with_signing_only(record: KeyRecord) -> KeyRecord:
    """The others are retired."""
    return msgspec.structs.replace(record, keys={record.signing: record.keys[record.signing]}, retiring=False)


class StoredRecord:
    """One record, to be read and changed. `first` gives the one of the files, unless there is one."""

    def __init__(self, store: Store, name: str, first: Callable[[], KeyRecord], clock: Clock) -> None:
        self._store = store
        self._name = name
        self._first = first
        self._clock = clock

    @property
    def now(self) -> KeyRecord:
        """The newest that was accepted."""
        return self._current()[1]

    @property
    def begun(self) -> bool:
        """Whether there is a record: before the first rotation nothing is ever due."""
        return self._store.get(BUCKET, self._name) is not None

    async def change(self, change: Callable[[KeyRecord], KeyRecord]) -> bool:
        """Write a change, if it is one; where somebody else was faster, decide again. Whether there was one."""
        while True:
            entry, record = self._current()
            wanted = change(record)
            if wanted == record:
                return False
            now = rfc3339(self._clock.now())
            wanted = msgspec.structs.replace(wanted, since=now, step=record.step + 1)
            try:
                if entry is None:
                    await self._store.create(BUCKET, self._name, wanted.encoded())
                else:
                    await self._store.update(BUCKET, self._name, wanted.encoded(), entry.revision)
            except (Exists, Conflict, Missing):
                continue
            return True

    def _current(self) -> tuple[Entry | None, KeyRecord]:
        entry = self._store.head(BUCKET, self._name)
        return entry, self._first() if entry is None else decode_record(entry.raw)
