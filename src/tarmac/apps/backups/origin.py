"""Decides if a backup is authentic, and of this host's cluster, before a restore changes anything.

Two things authenticate a backup: a tag of an encryption key that this host has, or the passphrase that opens the keys
in it, since those are sealed with its digest. A host without keys has no cluster yet, and becomes the backup's. A
backup of another cluster is restored only on demand: its role bindings decide who is an administrator here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from tarmac.apps.backups.hoststores import PKI
from tarmac.apps.backups.keys import encryption_keys_in, own_encryption_keys
from tarmac.apps.host.checks import Obstacle
from tarmac.apps.host.joining import Blocked
from tarmac.apps.layout import Layout
from tarmac.http.bundles import certificates_in
from tarmac.server.security.keys.backuptags import TagMismatch, is_tagged
from tarmac.store.backups.file import BackupHead
from tarmac.store.sqlite.sums import LogRow

_IDENTITY = ("core/namespaces", "kube-system")
"""The object whose uid names a cluster, as Kubernetes' tools have it."""


class ReadBackup(NamedTuple):
    """A backup that is as written; by whom is not known yet."""

    file: Path
    head: BackupHead
    rows: list[LogRow]
    keys: Mapping[str, bytes]  # decrypted; empty without a passphrase


class Allowed(NamedTuple):
    """Risks that the operator accepts."""

    loss: bool = False
    from_another_cluster: bool = False
    unauthenticated: bool = False


def is_foreign(layout: Layout, backup: ReadBackup, present: Iterable[LogRow], allowed: Allowed) -> bool:
    """Return True for a backup of another cluster, if that is allowed. Raises Blocked, OSError, ValueError."""
    if _is_tagged_here(layout, backup):
        return False
    if not backup.keys and not backup.head.tags:
        if not allowed.unauthenticated:
            raise Blocked([_unauthenticated(backup)])
        return False  # its cluster is unknown; Secrets of another one would not open
    if _is_new(layout) or (backup.keys and _shares_keys(layout, backup.keys)):
        return False
    same = _uid(present) is not None and _uid(present) == _uid(backup.rows)
    if same and backup.keys:
        return False  # all keys were rotated since; the passphrase proves the uid
    if not allowed.from_another_cluster:
        raise Blocked([_retired(layout, backup) if same else _foreign(layout, backup)])
    return True


def _is_tagged_here(layout: Layout, backup: ReadBackup) -> bool:
    """Return True if an encryption key of this host authenticated the backup. Raises Blocked, OSError, ValueError."""
    tags, digest = backup.head.tags, backup.head.digest
    own, inside = ([key for _, key in keys] for keys in (own_encryption_keys(layout), encryption_keys_in(backup.keys)))
    try:
        is_tagged(tags, digest, inside)
        return is_tagged(tags, digest, own)
    except TagMismatch as error:
        raise Blocked([Obstacle("authentication", f"{backup.file}: {error}; take another backup")]) from error


def _is_new(layout: Layout) -> bool:
    return not layout.encryption_key.exists() and not (layout.pki / "ca.key").exists()


def _shares_keys(layout: Layout, keys: Mapping[str, bytes]) -> bool:
    """Return True if this host has a key of the backup, or trusts an authority of it: other keys were rotated since."""
    if {key for _, key in own_encryption_keys(layout)} & {key for _, key in encryption_keys_in(keys)}:
        return True
    tokens, authorities = layout.pki / "sa.key", layout.pki / "ca.crt"
    if tokens.exists() and tokens.read_bytes() == keys.get(f"{PKI}sa.key"):
        return True
    here = certificates_in(authorities.read_text()) if authorities.exists() else ()
    return bool({*here} & {*certificates_in(keys.get(f"{PKI}ca.crt", b"").decode())})


def _uid(rows: Iterable[LogRow]) -> str | None:
    for row in rows:
        if (row.bucket, row.name) == _IDENTITY:
            return msgspec.json.decode(row.value or b"{}").get("metadata", {}).get("uid")
    return None


def _unauthenticated(backup: ReadBackup) -> Obstacle:
    proof = "give --passphrase-file, which proves its content, or " if backup.head.keys is not None else ""
    why = f"tarmac {backup.head.version} made it without authentication, or the authentication was removed"
    trust = "--accept-unauthenticated, if only administrators could write to the place where it was kept"
    return Obstacle("unauthenticated", f"{backup.file}: {why}; {proof}give {trust}".replace("or give", "or"))


def _retired(layout: Layout, backup: ReadBackup) -> Obstacle:
    inside = backup.head.keys is not None
    fix = "give --passphrase-file" if inside else f"add a line with the key of that time to {layout.encryption_key}"
    return Obstacle("keys", f"{backup.file} was made with an encryption key that this server has retired; {fix}")


def _foreign(layout: Layout, backup: ReadBackup) -> Obstacle:
    own = " and ".join(str(path) for path in (layout.pki, layout.encryption_key) if path.exists())
    become = f"to become a server of that cluster, move {own} away and give --passphrase-file"
    take = "to take its objects, with its users' rights, under the keys of this one, give --from-another-cluster"
    return Obstacle("cluster", f"{backup.file} is of another cluster than {own}; {become}; {take}")
