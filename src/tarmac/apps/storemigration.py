"""`tarmac store migrate`: moves a stopped server's SQLite store to an etcd that several servers can share.

checks → revisions → objects → verification → configuration → rename

Until the objects in etcd are verified against the file, by count and digest, the server keeps its configuration and the
file is its store; no server starts on an incomplete prefix. A kill between two steps leaves a consistent state, and the
same command continues.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.commands import parsed
from tarmac.apps.host.configuration import replace_field
from tarmac.apps.host.hostlayout import DONE, FAILED, USAGE, SetupFailed, print_progress
from tarmac.apps.layout import Layout, layout_of
from tarmac.base.log import configure
from tarmac.base.randomness import Randomness
from tarmac.base.stderr import print_error
from tarmac.cli.configfile import BadConfigFile
from tarmac.cli.configpath import DEFAULT_FILE
from tarmac.server.security.keys.encryption import SecretSealer
from tarmac.store.copying import Contents, contents_of, copy_objects
from tarmac.store.etcd import EtcdStore
from tarmac.store.etcd.fillmark import FillMark
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import FLOOR_STEP, StoreError
from tarmac.store.open import etcd_settings, sqlite_path
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.disk import sync_directory, take_lock
from tarmac.store.sqlite.marker import marker_path, read_marker


@dataclass(frozen=True)
class Move:
    """Source, target and configuration of a migration."""

    file: Path
    url: str
    settings: EtcdSettings
    sealer: SecretSealer
    config: Path | None
    switched: bool  # the configuration already names the etcd

    @property
    def kept(self) -> Path:
        """The file's name after the migration."""
        return self.file.with_name(f"{self.file.name}.migrated")


def main(options: argparse.Namespace) -> int:
    """Migrate; return the exit code."""
    configure(level="error", as_json=False)
    if not options.to.startswith("etcd://"):
        print_error(f"--to: {options.to} is not of the form etcd://HOST:PORT")
        return USAGE
    try:
        return asyncio.run(_move_or_finish(options))
    except (SetupFailed, BadConfigFile, StoreError, OSError, ValueError) as error:
        print_error(error)
        return FAILED


async def _move_or_finish(options: argparse.Namespace) -> int:
    config: Path | None = options.config
    if config is None and options.data_dir is None and DEFAULT_FILE.exists():
        config = DEFAULT_FILE
    words = ["server", *([f"--config={config}"] if config else [])]
    layout = layout_of(parsed([*words, *([f"--data-dir={options.data_dir}"] if options.data_dir else [])]))
    move = _planned(layout, options.to, config)
    if not move.file.exists() and move.kept.exists():
        _rename(move)
        print(f"already migrated; the former store is {move.kept}")
        return DONE
    if not move.file.exists():
        raise SetupFailed(f"there is no store at {move.file}")
    if move.kept.exists():
        raise SetupFailed(f"{move.kept} is there from an earlier move; put it elsewhere first")
    await migrate(move)
    return DONE


def _planned(layout: Layout, url: str, config: Path | None) -> Move:
    switched = layout.store_url == url
    if switched:
        file = layout.data_dir / "store.db"
    elif layout.store_url.startswith("sqlite://"):
        file = sqlite_path(layout.store_url)
    else:
        raise SetupFailed(f"the server's store is {layout.store_url.partition('?')[0]}; only SQLite is moved from")
    if not layout.encryption_key.exists():  # a new one would be created, and could decrypt nothing
        raise SetupFailed(f"there is no {layout.encryption_key}: Secrets cannot be read without it")
    sealer = SecretSealer.from_file(layout.encryption_key, Randomness())
    return Move(file, url, etcd_settings(url), sealer, config, switched)


async def migrate(move: Move) -> None:
    """Perform all remaining steps. Raises SetupFailed, StoreError, OSError."""
    print_progress("checks")
    source = SqliteStore(move.file, sealer=move.sealer)
    await source.start()  # fails while a server uses it
    try:
        mark, _ = read_marker(marker_path(move.file))
        assert mark is not None, "a store that was opened has a marker"
        contents = contents_of(source)
        async with _target(move) as target:
            done = _look(move, target, mark.id)
            if not done:
                print_progress("revisions")
                # The mark first: from here on no server starts there, and only this copy can be resumed.
                await target.mark_filling(FillMark(mark.id))
                await target.raise_floor(source.revision + FLOOR_STEP)
                print_progress("objects")
                await copy_objects(source, target)
        if not done:
            await _verify(move, contents, mark.id)
    finally:
        await source.close()
    print_progress("configuration")
    if move.config is not None:
        replace_field(move.config, "ServerConfig", "store", move.url)
    print_progress("rename")
    _rename(move)
    print(f"moved {contents.count} objects (sha256:{contents.digest}); the file is now {move.kept}")
    if move.config is None:
        print(f"start the server with --store '{move.url}' from now on")


@asynccontextmanager
async def _target(move: Move) -> AsyncGenerator[EtcdStore]:
    store = EtcdStore(move.settings, sealer=move.sealer, filling=True)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def _look(move: Move, target: EtcdStore, source: str) -> bool:
    """Return True if the copy is complete and servers may already use it.

    Raises SetupFailed if the prefix is not ours.
    """
    mark, prefix = target.mark, move.settings.prefix
    another = "name another one with prefix= in the URL"
    if mark is None and target.buckets():
        raise SetupFailed(f"there are objects below {prefix} already; {another}")
    if mark is not None and mark.source != source:
        raise SetupFailed(f"the objects below {prefix} were copied from another store than {move.file}; {another}")
    if mark is None or not mark.complete:
        return False
    if move.switched:
        return True
    if contents_of(target).digest != mark.digest:
        raise SetupFailed(f"servers have written below {prefix} since {move.file} was copied there; {another}")
    return False


async def _verify(move: Move, wanted: Contents, source: str) -> None:
    """Read everything again and mark it as complete. Raises SetupFailed."""
    print_progress("verification")
    async with _target(move) as target:
        found = contents_of(target)
        if found != wanted:
            there = f"etcd has {found.count} objects, sha256:{found.digest}"
            here = f"{move.file} has {wanted.count}, sha256:{wanted.digest}"
            raise SetupFailed(f"{there}; {here}: another process writes to it; nothing was changed here")
        await target.mark_filling(FillMark(source, complete=True, digest=found.digest))


def _rename(move: Move) -> None:
    """The file first: a remaining marker alone tells a starting server that the store is missing."""
    lock = take_lock(move.file)
    try:
        for before, after in ((move.file, move.kept), (marker_path(move.file), marker_path(move.kept))):
            if before.exists():
                before.rename(after)
                sync_directory(before.parent)
    finally:
        os.close(lock)
