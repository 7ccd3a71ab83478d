"""The cluster's own keys in the store: one record per kind of key, followed by every server.

The records are in their own bucket (`tarmac/keys`), sealed like Secrets and not visible in the API; the servers' files
are copies. A cluster starts with the keys of its files, and has a record from its first rotation on. Every step is one
compare-and-swap write of the record, so it happens once, on any server, and after a crash the next server continues
from the stored state.

    new key is trusted  →  new key signs, or seals  →  old key is retired
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tarmac.base.clock import Clock, parse_rfc3339, rfc3339
from tarmac.store.interface import Entry, Exists, Missing, Reads, RevisionConflict, Store

BUCKET: Final = "tarmac/keys"
TOKENS: Final = "tokens"
AUTHORITIES: Final = "ca"
ENCRYPTION: Final = "encryption"


class KeptKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """One key of a record. An authority has its certificate, and a copy cross-signed by the previous authority."""

    pem: str  # the private key; for encryption, the key in base64
    made: str = ""
    certificate: str = ""
    cross: str = ""


class KeyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """All trusted keys by id, the signing or sealing one, and the time of the last change.

    `step` counts changes. For encryption: values up to the revision `floor` must be sealed again, until `rewritten`;
    `retiring` means that the retirement of the old key has begun.
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
        """The id of the key added last."""
        return list(self.keys)[-1]

    @property
    def settled(self) -> bool:
        """True if no rotation is in progress."""
        return len(self.keys) == 1

    @property
    def switched(self) -> bool:
        """True if the newest key signs."""
        return self.newest == self.signing

    @property
    def changed(self) -> float:
        """The time of the last change."""
        return parse_rfc3339(self.since)

    def encoded(self) -> bytes:
        """Encode for storage."""
        return msgspec.json.encode(self)


def first_record(name: str, key: str, kept: KeptKey, now: float) -> KeyRecord:
    """Return the record of a cluster that uses the key of its files."""
    return KeyRecord({"name": name}, {key: kept}, key, rfc3339(now))


def decode_record(raw: bytes) -> KeyRecord:
    """Decode a stored record, with or without the resource version that the store adds."""
    found = msgspec.json.decode(raw, type=KeyRecord)
    return msgspec.structs.replace(found, metadata={"name": found.metadata["name"]})


def read_record(store: Reads, name: str) -> KeyRecord | None:
    """Return the visible record, or None before the first rotation."""
    entry = store.get(BUCKET, name)
    return None if entry is None else decode_record(entry.raw)


def with_new_key(record: KeyRecord, key: str, kept: KeptKey) -> KeyRecord:
    """Return the record with one more trusted key."""
    return msgspec.structs.replace(record, keys={**record.keys, key: kept}, floor=0, rewritten=False)


def with_newest_signing(record: KeyRecord) -> KeyRecord:
    """Return the record with the newest key signing."""
    return msgspec.structs.replace(record, signing=record.newest)


def with_signing_only(record: KeyRecord) -> KeyRecord:
    """Return the record with only the signing key."""
    return msgspec.structs.replace(record, keys={record.signing: record.keys[record.signing]}, retiring=False)


class StoredRecord:
    """Access to one record. `first` builds it from the files if the store has none."""

    def __init__(self, store: Store, name: str, first: Callable[[], KeyRecord], clock: Clock) -> None:
        self._store = store
        self._name = name
        self._first = first
        self._clock = clock

    @property
    def now(self) -> KeyRecord:
        """The latest accepted record."""
        return self._current()[1]

    @property
    def begun(self) -> bool:
        """True if there is a record: before the first rotation, no step is ever due."""
        # The visible record, not the latest accepted one: a record that fails to become durable begins nothing.
        return self._store.get(BUCKET, self._name) is not None

    async def change(self, change: Callable[[KeyRecord], KeyRecord]) -> bool:
        """Apply a change and write it; retry after a write conflict. Return False if nothing changed."""
        while True:
            entry, record = self._current()
            # Called again after each conflict: it must decide on the record it is given, not on an earlier one.
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
            # Another server took a step in between: the change is decided again on its record, never merged into it.
            except (Exists, RevisionConflict, Missing):
                continue
            return True

    def _current(self) -> tuple[Entry | None, KeyRecord]:
        entry = self._store.head(BUCKET, self._name)
        return entry, self._first() if entry is None else decode_record(entry.raw)
