"""`tarmac restore`: replaces the store of a stopped server by a backup.

checks → keys → build → rename

Nothing is changed before the backup is authenticated, all checks have passed and the loss was accepted. After a kill
before `rename` the old store is in place; after a kill during it, the next process to open the store completes it. This
holds for SQLite and for etcd. Existing key files are never changed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tarmac.api.identities import NAMESPACE, RESTORED
from tarmac.api.nodetokens import REVOKED_MAP
from tarmac.api.restored import RESTORES
from tarmac.api.schema import JsonObject
from tarmac.apps.backups.backup import open_with
from tarmac.apps.backups.hoststores import layout_named, read_passphrase
from tarmac.apps.backups.keys import encryption_keys_in, key_obstacles, own_encryption_keys, put_keys
from tarmac.apps.backups.origin import Allowed, ReadBackup, is_foreign
from tarmac.apps.host.checks import Obstacle
from tarmac.apps.host.hostlayout import DONE, FAILED, OBSTACLES, Machine, SetupFailed, print_progress, setting_up
from tarmac.apps.host.joining import Blocked
from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock, SystemClock, rfc3339
from tarmac.base.log import configure
from tarmac.base.randomness import Randomness
from tarmac.base.stderr import print_error
from tarmac.cli.configfile import BadConfigFile
from tarmac.server.security.keys.backupkeys import KeysChanged, WrongPassphrase
from tarmac.server.security.keys.encryption import RECORD, SEALED_BUCKETS, SecretSealer
from tarmac.server.security.keys.keyrecords import BUCKET, decode_record
from tarmac.store.backups.errors import BackupError
from tarmac.store.backups.file import read_backup
from tarmac.store.backups.restoring import Changed, SqlitePlace, StoreContents, StorePlace
from tarmac.store.interface import PREFIX, StoreError, Unavailable
from tarmac.store.open import sqlite_path
from tarmac.store.sqlite.sums import LogRow

_NODES = "core/nodes"
_REVOKED = ("core/configmaps", f"{NAMESPACE}/{REVOKED_MAP}")

Keys = Sequence[tuple[str, bytes]]
"""Encryption keys by id, the sealing one first."""


# Fits the backup's Secrets and key records to the keys of this host, which stay.
#
# Secrets that the current key does not open are encrypted with it. The records of the cluster's keys (`keyrecords`)
# stay as the present store has them: servers follow them, and older ones would bring retired keys back, or those of
# another cluster. Key files are not touched, so a kill at any moment leaves a store and keys that belong together.


class Fitted(NamedTuple):
    """The rows to restore, and those that change on the way."""

    rows: list[LogRow]
    changed: list[Changed]


def fitted(own: Keys, theirs: Keys, backup: Iterable[LogRow], present: Iterable[LogRow], *, foreign: bool) -> Fitted:
    """Return the contents under this host's keys. `theirs` open the backup. Raises ValueError."""
    records = {row.name: row for row in present if row.bucket == BUCKET}
    opener, sealer = SecretSealer(theirs, Randomness()), SecretSealer(own, Randomness())
    for row in records.values():
        _open(sealer, row)  # learns the key that seals now
    rows = [row for row in backup if row.bucket != BUCKET or not (foreign or row.name in records)]
    if (encryption := next(filter(_is_encryption_record, rows), None)) is not None:
        # Equal key files: a rotation that began just before the backup may be in the record and not in the file yet.
        if dict(own) == dict(theirs) or _has_keys_of(own, _open(opener, encryption)):
            _open(sealer, encryption)
        else:  # rotated since, and the present store is lost: without a record, the key file decides
            rows.remove(encryption)
    changed = [Changed(row.bucket, row.name, row.value or b"") for row in records.values()]
    return Fitted(rows, [*changed, *_resealed(rows, opener, sealer)])


def _resealed(rows: Iterable[LogRow], opener: SecretSealer, sealer: SecretSealer) -> Iterator[Changed]:
    for row in rows:
        if row.bucket not in SEALED_BUCKETS or _is_encryption_record(row):
            continue
        if not sealer.is_current(row.bucket, row.name, row.value or b""):
            yield Changed(row.bucket, row.name, sealer.seal(row.bucket, row.name, _open(opener, row)))


def _is_encryption_record(row: LogRow) -> bool:
    return (row.bucket, row.name) == RECORD


def _open(sealer: SecretSealer, row: LogRow) -> bytes:
    return sealer.open(row.bucket, row.name, row.value or b"")


def _has_keys_of(own: Keys, record: bytes) -> bool:
    known = dict(own)
    return all(known.get(name) == base64.b64decode(kept.pem) for name, kept in decode_record(record).keys.items())


class Checked(NamedTuple):
    """The content of a backup that passed all checks."""

    content: Fitted
    keys: Mapping[str, bytes]  # decrypted; installed where there are none


def main(options: argparse.Namespace) -> int:
    """Restore; return the exit code."""
    configure(level="error", as_json=False)
    allowed = Allowed(options.accept_loss, options.from_another_cluster, options.accept_unauthenticated)
    try:
        layout = layout_named(options)
        with setting_up(Machine(data=layout.data_dir)):
            asyncio.run(restore(layout, options.file, options.passphrase_file, SystemClock(), allowed))
    except Blocked as obstacles:
        for line in str(obstacles).splitlines():
            print_error(line)
        return OBSTACLES
    except (BadConfigFile, OSError, SetupFailed, StoreError, ValueError) as error:
        print_error(error)
        return FAILED
    return DONE


async def restore(layout: Layout, file: Path, passphrase_file: Path | None, clock: Clock, allowed: Allowed) -> None:
    """Perform all steps. Raises Blocked, OSError, StoreError, ValueError."""
    print_progress("checks")
    place = _place(layout, clock)
    try:
        backup = _read(file, passphrase_file)
        present = await place.present()
        content, keys = _checked(layout, backup, present, allowed)
        if not allowed.loss:
            raise Blocked(_lost(backup, present, layout))
        print_progress("keys")
        put_keys(layout, keys)
        print_progress("build")
        changed = [*content.changed, *changes_of(content.rows, present.rows, clock.now())]
        above = max(present.newest, backup.head.revision)
        newest, aside = await place.replace(content.rows, changed, above, int(clock.now()))
        print_progress("rename")
        await place.rename()
    finally:
        await place.close()
    kept = f"; the replaced store is {aside}" if aside is not None else ""
    print(f"{backup.head.objects} objects of {rfc3339(backup.head.at)} restored, revisions go on at {newest}{kept}")
    print("start the server; instances that run go on, and `tarmac restored list` shows those that it does not know")


def _place(layout: Layout, clock: Clock) -> StorePlace:
    """Return the store's location. Raises Unavailable if its server runs, ValueError."""
    url = layout.store_url
    if url.startswith("etcd://"):
        from tarmac.store.backups.etcdplace import EtcdPlace  # imports libraries that only etcd needs

        return EtcdPlace(url, clock)
    if not url.startswith("sqlite://"):
        raise ValueError(f"store {url!r}: only sqlite:// and etcd:// can be restored")
    try:
        return SqlitePlace(sqlite_path(url), Randomness().uuid)
    except Unavailable as error:
        raise Unavailable(f"{error}: stop it first") from error


def _read(file: Path, passphrase_file: Path | None) -> ReadBackup:
    """Read the backup, and decrypt its keys if there is a passphrase. Raises Blocked, OSError, ValueError."""
    try:
        head, rows = read_backup(file)
        keys = open_with(head, read_passphrase(passphrase_file)) if passphrase_file is not None else {}
    except BackupError as error:
        raise Blocked([Obstacle(error.check, f"{error}; take another backup")]) from error
    except WrongPassphrase as error:
        raise Blocked([Obstacle("passphrase", f"{file}: {error}; try another")]) from error
    except KeysChanged as error:
        raise Blocked([Obstacle("seal", f"{file}: {error}; take another backup")]) from error
    return ReadBackup(file, head, rows, keys)


def _checked(layout: Layout, backup: ReadBackup, present: StoreContents, allowed: Allowed) -> Checked:
    """Authenticate the backup; return its content under the keys of this host. Raises Blocked, OSError, ValueError."""
    foreign = is_foreign(layout, backup, present.rows, allowed)
    installed = {} if foreign else backup.keys
    if obstacles := list(key_obstacles(layout, installed, backup.head.keys is not None and not foreign)):
        raise Blocked(obstacles)
    own, inside = own_encryption_keys(layout), encryption_keys_in(backup.keys)
    # Where the keys are the backup's, no record of a store that was here before opens.
    records = present.rows if own else ()
    try:
        content = fitted(own or inside, inside or own, backup.rows, records, foreign=foreign)
    except ValueError as error:
        sealed_inside = backup.head.keys is not None and not backup.keys
        key = "give --passphrase-file" if sealed_inside else f"add a line with that key to {layout.encryption_key}"
        raise Blocked([Obstacle("secrets", f"{error}; {key}")]) from error
    return Checked(content, installed)


def _lost(backup: ReadBackup, present: StoreContents, layout: Layout) -> list[Obstacle]:
    head = backup.head
    lines: Sequence[str] = losses(present.rows, backup.rows)
    if present.trouble:
        lines = [f"everything in {layout.store_url}, which cannot be read: {present.trouble}"]
    elif not present.newest:
        lines = [f"there is no store here; writes after revision {head.revision} are not in the backup"]
    elif not lines:
        lines = ["nothing but history"]
    when = f"the backup is of {rfc3339(head.at)}, revision {head.revision}; --accept-loss continues"
    return [*(Obstacle("loss", line) for line in lines), Obstacle("backup", when)]


def losses(present: Iterable[LogRow], backup: Iterable[LogRow]) -> list[str]:
    """Return a line for each kind in which the store differs from the backup, except for key records, which stay."""
    now, then = ({(row.bucket, row.name): row for row in rows if row.bucket != BUCKET} for rows in (present, backup))
    newer = Counter(bucket for bucket, name in now if (bucket, name) not in then)
    changed = Counter(key[0] for key, row in now.items() if key in then and then[key].value != row.value)
    gone = Counter(bucket for bucket, name in then if (bucket, name) not in now)
    lines: list[str] = []
    for bucket in sorted({*newer, *changed, *gone}):
        counts = (
            (newer, "made since (lost)"),
            (changed, "changed since (go back)"),
            (gone, "deleted since (come back)"),
        )
        summary = ", ".join(f"{what}: {count[bucket]}" for count, what in counts if count[bucket])
        lines.append(f"{bucket.partition('/')[2]}: {summary}")
    return lines


def changes_of(backup: Iterable[LogRow], present: Iterable[LogRow], now: float) -> list[Changed]:
    """Return all objects of the backup that must be changed during the restore."""
    time = rfc3339(now)
    note = _encoded({"metadata": {"name": RESTORES[1]}, "time": time})
    known, revoked = list(backup), [row for row in present if (row.bucket, row.name) == _REVOKED]
    return [Changed(*RESTORES, note), *_marked_nodes(known, time), *(_kept_refused(known, row) for row in revoked)]


def _marked_nodes(rows: Iterable[LogRow], time: str) -> Iterator[Changed]:
    for row in rows:
        if row.bucket == _NODES:
            node = _decoded(row)
            metadata = node["metadata"]
            metadata["annotations"] = {**(metadata.get("annotations") or {}), RESTORED: time}
            yield Changed(row.bucket, row.name, _encoded(node))


def _kept_refused(backup: Iterable[LogRow], present: LogRow) -> Changed:
    """Keep all revocations made since the backup: the revoked certificates still exist."""
    now = _decoded(present)
    for row in backup:
        if (row.bucket, row.name) == _REVOKED:
            now["data"] = {**(_decoded(row).get("data") or {}), **(now.get("data") or {})}
    return Changed(*_REVOKED, _encoded(now))


def _decoded(row: LogRow) -> JsonObject:
    return msgspec.json.decode(row.value or b"{}")


def _encoded(value: JsonObject) -> bytes:
    """Encode as the store does: metadata first, without a resource version."""
    metadata = {name: each for name, each in value["metadata"].items() if name != "resourceVersion"}
    encoded = msgspec.json.encode({"metadata": metadata, **{k: v for k, v in value.items() if k != "metadata"}})
    assert encoded.startswith(PREFIX), "every object has metadata"
    return encoded
