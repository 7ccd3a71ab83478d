"""`tarmac restore`: replaces the store of a stopped server by a backup.

checks → keys → build → rename

Nothing is changed before the backup is authenticated, all checks have passed and the loss was accepted. After a kill
before `rename` the old store is in place; after a kill during it, the next process to open the store completes it. This
holds for SQLite and for etcd. Existing key files are never changed.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tarmac.apps.backups.backup import open_with
from tarmac.apps.backups.keys import encryption_keys_in, key_obstacles, own_encryption_keys, put_keys
from tarmac.apps.backups.losses import losses
from tarmac.apps.backups.marking import changes_of
from tarmac.apps.backups.origin import Allowed, ReadBackup, is_foreign
from tarmac.apps.backups.places import layout_named, read_passphrase
from tarmac.apps.backups.resealing import Fitted, fitted
from tarmac.apps.host.checks import Obstacle
from tarmac.apps.host.hostlayout import DONE, FAILED, OBSTACLES, Machine, SetupFailed, setting_up, tell
from tarmac.apps.host.joining import Blocked
from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock, SystemClock, rfc3339
from tarmac.base.log import configure
from tarmac.base.randomness import Randomness
from tarmac.base.stderr import print_error
from tarmac.cli.configfile import BadConfigFile
from tarmac.server.security.backupkeys import KeysChanged, WrongPassphrase
from tarmac.store.backups.errors import BackupError
from tarmac.store.backups.file import read_backup
from tarmac.store.backups.restoring import SqlitePlace, StoreContents, StorePlace
from tarmac.store.interface import StoreError, Unavailable
from tarmac.store.open import sqlite_path


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
    tell("checks")
    place = _place(layout, clock)
    try:
        backup = _read(file, passphrase_file)
        present = await place.present()
        content, keys = _checked(layout, backup, present, allowed)
        if not allowed.loss:
            raise Blocked(_lost(backup, present, layout))
        tell("keys")
        put_keys(layout, keys)
        tell("build")
        changed = [*content.changed, *changes_of(content.rows, present.rows, clock.now())]
        above = max(present.newest, backup.head.revision)
        newest, aside = await place.replace(content.rows, changed, above, int(clock.now()))
        tell("rename")
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
