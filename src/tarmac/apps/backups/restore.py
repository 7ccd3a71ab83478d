"""`tarmac restore`: replaces the store of a stopped server by a backup.

checks → keys → build → rename

Nothing is changed before all checks have passed and the loss was accepted. After a kill before `rename` the old store
is in place; after a kill during it, the next process to open the store completes it. This holds for SQLite and for
etcd.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tarmac.apps.backups.backup import open_with
from tarmac.apps.backups.keys import key_obstacles, put_keys, sealer_for, secret_obstacles
from tarmac.apps.backups.losses import losses
from tarmac.apps.backups.marking import changes_of
from tarmac.apps.backups.places import layout_named, read_passphrase
from tarmac.apps.layout import Layout
from tarmac.apps.machine.checks import Obstacle
from tarmac.apps.machine.joining import Blocked
from tarmac.apps.machine.layout import DONE, FAILED, OBSTACLES, Machine, SetupFailed, setting_up, tell
from tarmac.base.clock import Clock, SystemClock, rfc3339
from tarmac.base.log import configure
from tarmac.base.randomness import Randomness
from tarmac.cli.configfile import BadConfigFile
from tarmac.server.security.backupkeys import KeysChanged, WrongPassphrase
from tarmac.store.backups.errors import BackupError
from tarmac.store.backups.file import BackupHead, read_backup
from tarmac.store.backups.restoring import Present, SqlitePlace, StorePlace
from tarmac.store.interface import StoreError, Unavailable
from tarmac.store.open import sqlite_path
from tarmac.store.sqlite.sums import Row


class Checked(NamedTuple):
    """A backup that passed all checks."""

    head: BackupHead
    rows: list[Row]
    keys: Mapping[str, bytes]  # decrypted; empty if the existing keys stay


def main(options: argparse.Namespace) -> int:
    """Restore; return the exit code."""
    configure(level="error", as_json=False)
    try:
        layout = layout_named(options)
        with setting_up(Machine(data=layout.data_dir)):
            asyncio.run(restore(layout, options.file, options.passphrase_file, SystemClock(), options.accept_loss))
    except Blocked as obstacles:
        for line in str(obstacles).splitlines():
            tell(line)
        return OBSTACLES
    except (BadConfigFile, OSError, SetupFailed, StoreError, ValueError) as error:
        print(f"tarmac: {error}", file=sys.stderr)
        return FAILED
    return DONE


async def restore(layout: Layout, file: Path, passphrase_file: Path | None, clock: Clock, accept_loss: bool) -> None:
    """Perform all steps. Raises Blocked, OSError, StoreError, ValueError."""
    tell("checks")
    place = _place(layout, clock)
    try:
        checked = _checked(layout, file, passphrase_file)
        present = await place.present()
        if not accept_loss:
            raise Blocked(_lost(checked, present, layout))
        tell("keys")
        put_keys(layout, checked.keys)
        tell("build")
        changed = changes_of(checked.rows, present.rows, clock.now())
        above = max(present.newest, checked.head.revision)
        newest, aside = await place.replace(checked.rows, changed, above, int(clock.now()))
        tell("rename")
        await place.rename()
    finally:
        await place.close()
    kept = f"; the replaced store is {aside}" if aside is not None else ""
    print(f"{checked.head.objects} objects of {rfc3339(checked.head.at)} restored, revisions go on at {newest}{kept}")
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


def _checked(layout: Layout, file: Path, passphrase_file: Path | None) -> Checked:
    """Return the backup after checking it and its keys. Raises Blocked, OSError, ValueError."""
    try:
        head, rows = read_backup(file)
        keys = open_with(head, read_passphrase(passphrase_file)) if passphrase_file is not None else {}
    except BackupError as error:
        raise Blocked([Obstacle(error.check, f"{error}; take another backup")]) from error
    except WrongPassphrase as error:
        raise Blocked([Obstacle("passphrase", f"{file}: {error}; try another")]) from error
    except KeysChanged as error:
        raise Blocked([Obstacle("seal", f"{file}: {error}; take another backup")]) from error
    obstacles = list(key_obstacles(layout, keys, head.keys is not None))
    if not obstacles:
        obstacles = list(secret_obstacles(sealer_for(layout, keys), rows))
    if obstacles:
        raise Blocked(obstacles)
    return Checked(head, rows, keys)


def _lost(checked: Checked, present: Present, layout: Layout) -> list[Obstacle]:
    head = checked.head
    lines: Sequence[str] = losses(present.rows, checked.rows)
    if present.trouble:
        lines = [f"everything in {layout.store_url}, of which nobody can say more: {present.trouble}"]
    elif not present.newest:
        lines = [f"there is no store yet; what was written after revision {head.revision} is not in the backup"]
    elif not lines:
        lines = ["nothing but history"]
    when = f"the backup is of {rfc3339(head.at)}, revision {head.revision}; --accept-loss goes on"
    return [*(Obstacle("loss", line) for line in lines), Obstacle("backup", when)]
