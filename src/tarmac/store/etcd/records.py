"""The layout of objects in etcd, and the conversion of etcd's events to the store's events.

An object is `PREFIX/<group>/<resource>/<namespace>/<name>`, with `core` for the core group and no namespace segment for
cluster-scoped objects; its value is the object's JSON without resource version, sealed if the driver seals. Its
revision is etcd's mod_revision plus an offset, and every write is one transaction on one object, with its guards beside
it.

Keys below `PREFIX/!` are not objects. `!last` belongs to deletes: etcd's delete event carries no value, so the same
transaction puts a token of the writer, and the object's final state if that is not the stored one, under this key. It
is overwritten by each delete, but the watch delivers every version of it beside its delete; it also means that each
change below the prefix, deletes included, shows in some key's mod_revision. `!guard/` holds a fixed number of empty
keys, over which guards are spread by their names; each write under a guard puts its key, so the key's mod_revision is
the time of the last such write. Guards that share a key only cost each other a second check. One more key there is the
fence of creates (`writing`).

`!offset` is the offset, 0 where it is missing. Objects copied from a different store have revisions there that this
etcd has not reached; the offset lifts its own above them. Everything before the key was written counts as compacted.
`!fill` marks a copy from a different store (`fillmark`), `!format` is the format version that servers write (`format`).
`!restore` and `!restored/` are a backup that is about to replace the objects (`restoring`).

Outside of this module and of `writing`, revisions are the store's; etcd's own are called mod revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import intern
from zlib import crc32

from tarmac.base.log import log
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.interface import PREFIX, Entry, Event, Sealer, Unavailable, splice, unsplice

_log = log("store.etcd")

_TOKEN_BYTES = 36  # a UUID as text
_GUARD_KEYS = 256
Change = tuple[Event, bytes]
"""An event and the mark of its writer: the stored value of a put, the token of a delete."""


class EtcdLayout:
    """Keys and values under one prefix."""

    def __init__(self, prefix: str, sealer: Sealer | None) -> None:
        self._root = f"{prefix}/".encode()
        self._sealer = sealer
        self.first = self._root
        self.end = f"{prefix}0".encode()  # "0" follows "/"
        self.last_delete = self._root + b"!last"
        self.compaction = self._root + b"!compaction"
        self.offset_key = self._root + b"!offset"
        self.fill_key = self._root + b"!fill"
        self.format_key = self._root + b"!format"
        self.restore_key = self._root + b"!restore"
        self.prepared = self._root + b"!restored/", self._root + b"!restored0"  # from, and up to
        self._offset = 0
        # the revision at which the offset was written: earlier ones belong to a different store, or to none
        self.floor = 0
        self._guards = self._root + b"!guard/"
        self.fence = self._guards + b"creates"

    def revision(self, mod_revision: int) -> int:
        """Convert etcd's mod revision to the store's revision."""
        return mod_revision + self._offset

    def mod_revision(self, revision: int) -> int:
        """Convert the store's revision to etcd's: below 1 for a revision from before the offset."""
        return revision - self._offset

    def take_offset(self, kvs: Iterable[pb.KeyValue]) -> None:
        """Take the offset from these keys, if present. Call it before converting any of them."""
        for kv in kvs:
            if kv.key == self.offset_key:
                self._offset = int(kv.value)
                self.floor = self.revision(kv.mod_revision)

    def guard_keys(self, guards: Iterable[str]) -> list[bytes]:
        """Return the keys that represent these guards."""
        return sorted({b"%b%02x" % (self._guards, crc32(guard.encode()) % _GUARD_KEYS) for guard in guards})

    def guards_among(self, kvs: Iterable[pb.KeyValue]) -> dict[bytes, int]:
        """Keys of guards with their mod revisions."""
        return {kv.key: kv.mod_revision for kv in kvs if kv.key.startswith(self._guards)}

    def key(self, bucket: str, name: str) -> bytes:
        """Return the key of an object."""
        return self._root + f"{bucket}/{name}".encode()

    def prepared_key(self, bucket: str, name: str) -> bytes:
        """Return the key of a backup's object until it is moved into place."""
        return self.prepared[0] + f"{bucket}/{name}".encode()

    def place_of(self, prepared: bytes) -> bytes:
        """Return the final key of a prepared object."""
        return self._root + prepared.removeprefix(self.prepared[0])

    def is_object(self, key: bytes) -> bool:
        """True for the key of an object, False for a key of the driver."""
        return self._place(key) is not None

    def seal(self, bucket: str, name: str, value: bytes) -> bytes:
        """Return the stored form of a value."""
        return self._sealer.seal(bucket, name, value) if self._sealer is not None else value

    def opened_first(self) -> list[bytes]:
        """Return the keys of the objects that have to be opened before all other objects."""
        return [self.key(*place) for place in self._sealer.opened_first] if self._sealer is not None else []

    def objects(self, kvs: Iterable[pb.KeyValue]) -> Iterator[tuple[str, Entry]]:
        """Yield bucket and entry of each object among `kvs`."""
        for kv in kvs:
            place = self._place(kv.key)
            if place is not None:
                value = self._open(*place, kv.value)
                if value is not None:
                    yield place[0], self._entry(place[1], kv, value)

    def stored(self, kvs: Iterable[pb.KeyValue]) -> Iterator[tuple[str, str, int, int, bytes]]:
        """Yield for each object: bucket, name, revisions of its create and its last change, stored value."""
        for kv in kvs:
            if (place := self._place(kv.key)) is not None:
                yield *place, self.revision(kv.create_revision), self.revision(kv.mod_revision), kv.value

    def changes(self, events: Sequence[pb.Event], previous: Callable[[str, str], Entry | None]) -> list[Change]:
        """Convert etcd's events, in order. `previous` returns an object as it was before the first of them."""
        changes: list[Change] = []
        latest: dict[tuple[str, str], Entry | None] = {}
        last = {e.kv.mod_revision: e.kv.value for e in events if e.kv.key == self.last_delete}
        for event in events:
            place = self._place(event.kv.key)
            if place is None:
                continue
            before = latest[place] if place in latest else previous(*place)
            change = self._change(place, event, before, last.get(event.kv.mod_revision, b""))
            if change is not None:
                changes.append(change)
                latest[place] = None if change[0].type == "DELETED" else change[0].entry
        return changes

    def past_changes(self, events: Sequence[pb.Event]) -> list[Change]:
        """Convert events that carry the version they replaced."""
        # per key, the version before its first event
        before = {event.kv.key: event.prev_kv for event in reversed(events)}

        def previous(bucket: str, name: str) -> Entry | None:
            kv = before[self.key(bucket, name)]
            value = self._open(bucket, name, kv.value) if kv.mod_revision else None
            return self._entry(name, kv, value) if value is not None else None

        return self.changes(events, previous)

    def _change(self, place: tuple[str, str], event: pb.Event, before: Entry | None, last: bytes) -> Change | None:
        bucket, name = place
        kv = event.kv
        if event.type == pb.Event.PUT:
            value = self._open(bucket, name, kv.value)
            if value is None:
                return None
            entry = self._entry(before.name if before is not None else name, kv, value)
            return Event("ADDED" if before is None else "MODIFIED", bucket, entry, before), kv.value
        if before is None:  # was never an object
            return None
        token, blob = last[:_TOKEN_BYTES], last[_TOKEN_BYTES:]
        final = self._open(bucket, name, blob) if blob else None
        revision = self.revision(kv.mod_revision)
        raw = splice(final if final is not None else unsplice(before), revision)
        return Event("DELETED", bucket, Entry(before.name, revision, before.created, raw), before), token

    def _entry(self, name: str, kv: pb.KeyValue, value: bytes) -> Entry:
        revision = self.revision(kv.mod_revision)
        created = revision if kv.create_revision == kv.mod_revision else self.revision(kv.create_revision)
        return Entry(name, revision, created, splice(value, revision))

    def _place(self, key: bytes) -> tuple[str, str] | None:
        """Bucket and name; None for keys that are not objects."""
        parts = key[len(self._root) :].decode(errors="replace").split("/", 2)
        if len(parts) < 3 or parts[0].startswith("!"):
            return None
        return intern(f"{parts[0]}/{parts[1]}"), parts[2]

    def _open(self, bucket: str, name: str, blob: bytes) -> bytes | None:
        """Return the object's JSON; None, with a warning, for a value that a different program put there."""
        try:
            value = self._sealer.open(bucket, name, blob) if self._sealer is not None else blob
        except ValueError as error:
            raise Unavailable(f"cannot decrypt {bucket}/{name}: {error}") from error
        if not value.startswith(PREFIX):
            _log.warning("key below the prefix is not a Tarmac object, ignored", bucket=bucket, name=name)
            return None
        return value
