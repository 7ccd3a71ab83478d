"""`tarmac backup create|verify`.

copy → keys → verify → rename → note

The file is written under a temporary name, read back and compared, and only then renamed, so a file with the final name
is always complete. A killed command leaves at most the temporary file, which the next one overwrites.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tarmac import __version__
from tarmac.api.status import ApiError
from tarmac.apps.backups.hoststores import key_files, layout_named, read_passphrase
from tarmac.apps.backups.keys import encryption_keys_in, own_encryption_keys
from tarmac.apps.host.hostlayout import DONE, FAILED, OBSTACLES, print_progress
from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock, SystemClock, rfc3339
from tarmac.base.log import configure
from tarmac.base.randomness import Randomness
from tarmac.base.stderr import print_error, print_warning
from tarmac.cli.configfile import BadConfigFile
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import CONFIG_MAPS
from tarmac.server.security.keys.backupkeys import KeysChanged, WrongPassphrase, open_keys, seal_keys
from tarmac.server.security.keys.backuptags import TagMismatch, is_tagged, tags_of
from tarmac.store.backups.errors import BackupError
from tarmac.store.backups.file import BackupHead, BackupWriter, is_backup, read_backup
from tarmac.store.backups.storecopies import copy_store
from tarmac.store.interface import StoreError
from tarmac.store.sqlite.disk import sync_directory

NOTE = "tarmac-backups"
"""ConfigMap in `kube-system`: `time`, `revision` and `digest` of the newest backup."""
_MANAGER = "tarmac-backup"


def main(options: argparse.Namespace) -> int:
    """Run one action; return the exit code."""
    configure(level="error", as_json=False)
    try:
        if options.action == "verify":
            return verify(options.file, options.passphrase_file)
        return asyncio.run(create(layout_named(options), options.file, options.passphrase_file, SystemClock()))
    except (BackupError, BadConfigFile, OSError, StoreError, ValueError) as error:
        print_error(error)
        return FAILED


async def create(layout: Layout, file: Path, passphrase_file: Path | None, clock: Clock) -> int:
    """Create a backup; without a passphrase it has no keys. Raises BackupError, OSError, StoreError, ValueError."""
    file = file.absolute()
    if file.exists() and not is_backup(file):
        raise ValueError(f"{file} exists and is no backup of Tarmac: choose another name")
    passphrase = read_passphrase(passphrase_file) if passphrase_file is not None else None
    keys = {name: path.read_bytes() for name, path in key_files(layout).items()} if passphrase is not None else {}
    seal = partial(_sealed, keys, passphrase) if passphrase is not None else None
    with _alone_in(file.parent):
        head = await _write(layout, file, seal, clock)
    print_progress("note")
    await _note(layout, head)
    print(f"{file}: {head.objects} objects at revision {head.revision}, sha256:{head.digest}")
    return DONE


async def _write(layout: Layout, file: Path, seal: Callable[[str], bytes] | None, clock: Clock) -> BackupHead:
    unfinished = file.with_name(f".{file.name}.unfinished")
    writer = BackupWriter(unfinished, Randomness().uuid)
    try:
        print_progress("copy")
        revision = await copy_store(layout.store_url, clock, writer.add)
        print_progress("keys")
        writer.finish(__version__, revision, int(clock.now()), seal, partial(_authenticated, layout))
    except BaseException:
        writer.abandon()
        raise
    print_progress("verify")
    head, _ = read_backup(unfinished)
    print_progress("rename")
    # The data read back may come from the page cache, but SQLite has synced the file: now rename it.
    unfinished.rename(file)
    sync_directory(file.parent)
    return head


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """Lock the folder: two backups at once would write one file. The kernel releases the lock. Raises ValueError."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"another backup is being written to {folder}: wait until it is done") from None
        yield
    finally:
        os.close(lock)


def verify(file: Path, passphrase_file: Path | None) -> int:
    """Verify a backup; return 3 and print the reason if it is damaged. Raises OSError, ValueError."""
    try:
        head, _ = read_backup(file)
        keys = open_with(head, read_passphrase(passphrase_file)) if passphrase_file is not None else None
        is_tagged(head.tags, head.digest, (key for _, key in encryption_keys_in(keys or {})))
    except BackupError as error:
        print_error(f"{error.check}: {error}; take another backup")
        return OBSTACLES
    except WrongPassphrase as error:
        print_error(f"passphrase: {file}: {error}; try another")
        return OBSTACLES
    except KeysChanged as error:
        print_error(f"seal: {file}: {error}; take another backup")
        return OBSTACLES
    except TagMismatch as error:
        print_error(f"authentication: {file}: {error}; take another backup")
        return OBSTACLES
    made = f"made {rfc3339(head.at)} by tarmac {head.version}"
    print(f"{file} is whole: {head.objects} objects at revision {head.revision}, {made}, sha256:{head.digest}")
    if keys is not None:
        print(f"the passphrase opens its {len(keys)} key files, and nothing was changed since they were sealed")
    else:
        print("it has the cluster's keys, sealed" if head.keys is not None else "it has no keys: keep those apart")
    if not head.tags:
        print(f"it is not authenticated: tarmac {head.version} could not, or the authentication was removed")
    return DONE


def open_with(head: BackupHead, passphrase: bytes) -> dict[str, bytes]:
    """Return the keys in a backup. Raises WrongPassphrase, KeysChanged, ValueError."""
    if head.keys is None:
        raise ValueError("the backup was made without keys: --passphrase-file opens nothing")
    return open_keys(head.keys, passphrase, head.digest)


def _authenticated(layout: Layout, digest: str) -> dict[str, str]:
    """Return the digest's tags with the keys of this host. Raises BadKeyFile, OSError, ValueError."""
    if not (keys := own_encryption_keys(layout)):
        where = "make the backup on the host of a server, or copy the file from there"
        raise ValueError(f"{layout.encryption_key} is not here, and it authenticates the backup: {where}")
    return tags_of(digest, (key for _, key in keys))


def _sealed(keys: dict[str, bytes], passphrase: bytes, digest: str) -> bytes:
    return seal_keys(keys, passphrase, digest, Randomness())


async def _note(layout: Layout, head: BackupHead) -> None:
    """Record the time of the newest backup in the cluster. A failure does not affect the backup."""
    data = {"time": rfc3339(head.at), "revision": str(head.revision), "digest": f"sha256:{head.digest}"}
    metadata = {"name": NOTE, "namespace": "kube-system"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    try:
        client = Client(HttpTransport(load(str(layout.kubeconfig)).http))
        try:
            await client.resource(CONFIG_MAPS).apply(body, manager=_MANAGER)
        finally:
            await client.close()
    except (ApiError, ClientError, OSError) as error:
        print_warning(f"the backup is complete, but its time cannot be recorded in the cluster: {error}")
