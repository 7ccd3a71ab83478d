"""Write access to the place of the backups gives no control over the cluster: a forged backup is not restored.

The forger has the backup and the program, so every sum and digest of a forgery fits. The forger has no key.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from tarmac.apps.backups.origin import Allowed
from tarmac.apps.backups.restore import restore
from tarmac.apps.host.joining import Blocked
from tarmac.apps.layout import Layout
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.server.security.keys.backupkeys import seal_keys
from tarmac.server.security.keys.backuptags import TagMismatch, is_tagged, tags_of
from tarmac.store.backups.file import BackupWriter, read_backup
from tarmac.store.sqlite.sums import LogRow, row_sum

KEY, OLD_KEY, OTHER_KEY = (bytes([each]) * 32 for each in (1, 2, 3))
PASSPHRASE = b"correct horse battery"
BINDING = ("rbac.authorization.k8s.io/clusterrolebindings", "admins")
CLOCK = SystemClock()


class Cluster:
    """The keys and the backup of a cluster, without a server."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.layout = Layout(folder, folder / "pki", folder / "secrets.key", f"sqlite://{folder / 'store.db'}")
        self.file, self.passphrase = folder / "backup", folder / "passphrase"
        self.passphrase.write_bytes(PASSPHRASE + b"\n")

    def install(self, *keys: bytes) -> None:
        """Write the key files of the host, with these encryption keys."""
        self.layout.pki.mkdir(exist_ok=True)
        for name in ("ca.crt", "ca.key", "sa.key"):
            (self.layout.pki / name).write_text(f"{name} of {self.layout.data_dir.name}")
        self.layout.encryption_key.write_bytes(_key_file(*keys))
        self.layout.encryption_key.chmod(0o600)

    def back_up(self, *keys: bytes, rows: list[LogRow] | None = None, tags: Mapping[str, str] | None = None) -> None:
        """Write a backup with tags of these keys, or with given ones."""
        files = {"secrets.key": _key_file(*keys), "pki/ca.crt": b"c", "pki/ca.key": b"k", "pki/sa.key": b"s"}

        def authenticate(digest: str) -> Mapping[str, str]:
            return tags_of(digest, keys) if tags is None else tags

        writer = BackupWriter(self.file, Randomness().uuid)
        writer.add(rows if rows is not None else [_row(5, "alice"), _row(6, "", ("core/configmaps", "default/a"))])
        writer.finish(
            "0.2.0", 9, 1_800_000_000, lambda it: seal_keys(files, PASSPHRASE, it, Randomness()), authenticate
        )

    async def refusal(self, *, passphrase: bool = False, **allowed: bool) -> str:
        """Return the one error. The data directory is unchanged."""
        before = _files(self.layout.data_dir)
        with pytest.raises(Blocked) as blocked:
            await self.restore(passphrase=passphrase, **allowed)
        assert _files(self.layout.data_dir) == before
        [line] = str(blocked.value).splitlines()
        return line

    async def restore(self, *, passphrase: bool = False, **allowed: bool) -> None:
        words = self.passphrase if passphrase else None
        await restore(self.layout, self.file, words, CLOCK, Allowed(loss=True, **allowed))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path / "own")
    cluster.install(KEY)
    cluster.back_up(KEY)
    return cluster


def _row(revision: int, admin: str, key: tuple[str, str] = BINDING) -> LogRow:
    value = msgspec.json.encode({"metadata": {"name": key[1]}, "subjects": [{"kind": "User", "name": admin}]})
    columns = (revision, 0, *key, revision, 0, 0, value)
    return LogRow(*columns, row_sum(*columns))


def _key_file(*keys: bytes) -> bytes:
    return b"".join(b"key-%d %b\n" % (key[0], base64.b64encode(key)) for key in keys)


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path): path.read_bytes() for path in found}


def _replaced(rows: list[LogRow], change: Callable[[LogRow], LogRow]) -> list[LogRow]:
    changed = (change(row) for row in rows)
    return [row._replace(sum=row_sum(*row[:-1])) for row in changed]


FORGERIES: dict[str, Callable[[LogRow], LogRow]] = {
    "administrator": lambda row: _row(5, "mallory") if row.revision == 5 else row,
    "revision": lambda row: row._replace(revision=row.revision + 1),
    "created": lambda row: row._replace(created=1),
    "time": lambda row: row._replace(at=7),
    "name": lambda row: row._replace(name=f"{row.name}x"),
}


@pytest.mark.parametrize("what", FORGERIES)
async def test_a_changed_row_fails_the_tag(cluster: Cluster, what: str) -> None:
    head, rows = read_backup(cluster.file)
    cluster.back_up(KEY, rows=_replaced(rows, FORGERIES[what]), tags=head.tags)
    read_backup(cluster.file)
    wanted = f"authentication: {cluster.file}: its content is not the content that its cluster authenticated"
    assert (await cluster.refusal()).startswith(wanted)
    assert (await cluster.refusal(unauthenticated=True, from_another_cluster=True)).startswith(wanted), "no flag helps"


async def test_a_row_that_is_gone_fails_the_tag(cluster: Cluster) -> None:
    head, rows = read_backup(cluster.file)
    cluster.back_up(KEY, rows=rows[:1], tags=head.tags)
    assert (await cluster.refusal()).startswith("authentication: ")


async def test_a_backup_without_its_tags_is_unauthenticated(cluster: Cluster) -> None:
    _, rows = read_backup(cluster.file)
    cluster.back_up(KEY, rows=_replaced(rows, FORGERIES["administrator"]), tags={})
    assert (await cluster.refusal()).startswith(f"unauthenticated: {cluster.file}: ")


async def test_a_backup_made_into_one_of_the_former_format_is_unauthenticated_and_fails_its_seal(
    cluster: Cluster,
) -> None:
    with closing(sqlite3.connect(cluster.file)) as db, db:
        [found] = db.execute("SELECT version, revision, at, buckets FROM backup")
        digest = sha256("\0".join(map(str, (1, *found))).encode()).hexdigest()
        db.execute("UPDATE backup SET format = 1, digest = ?, tags = '', rows = ''", (digest,))
    assert (await cluster.refusal()).startswith(f"unauthenticated: {cluster.file}: ")
    assert (await cluster.refusal(passphrase=True)).startswith(f"seal: {cluster.file}: ")


async def test_a_backup_of_the_forgers_own_cluster_is_another_clusters(cluster: Cluster) -> None:
    for tags in (None, {"0" * 32: "0" * 64}, tags_of("digest of another backup", [OTHER_KEY])):
        cluster.back_up(OTHER_KEY, rows=[_row(5, "mallory")], tags=tags)
        assert (await cluster.refusal()).startswith(f"cluster: {cluster.file} is of another cluster")
        assert (await cluster.refusal(unauthenticated=True)).startswith("cluster: "), "each flag has one meaning"


@pytest.mark.parametrize("present", [(), ("pki/sa.key",), ("pki/ca.crt", "pki/sa.key"), ("secrets.key",)])
@pytest.mark.parametrize("allowed", [{}, {"unauthenticated": True}, {"from_another_cluster": True}])
async def test_a_host_without_all_its_keys_takes_no_tag_on_trust(
    tmp_path: Path, present: tuple[str, ...], allowed: dict[str, bool]
) -> None:
    """`verify` cannot check one: only the passphrase authenticates a backup there."""
    new = Cluster(tmp_path / "new")
    if present:
        new.install(KEY)
        for name in {"secrets.key", "pki/ca.crt", "pki/ca.key", "pki/sa.key"} - {*present}:
            (new.layout.data_dir / name).unlink()
    for tags in ({"0" * 32: "0" * 64}, tags_of("digest of another backup", [OTHER_KEY]), None):
        new.back_up(OTHER_KEY, rows=[_row(5, "mallory")], tags=tags)
        before = _files(new.layout.data_dir)
        with pytest.raises(Blocked):
            await new.restore(**allowed)
        assert _files(new.layout.data_dir) == before


async def test_a_stolen_key_forges_nothing_once_it_is_retired(cluster: Cluster) -> None:
    cluster.back_up(OLD_KEY, rows=[_row(5, "mallory")])
    assert (await cluster.refusal()).startswith("cluster: ")
    cluster.install(KEY, OLD_KEY)
    await cluster.restore()


async def test_a_backup_is_restored_with_any_key_of_its_time(cluster: Cluster) -> None:
    """The backup was made in the middle of a rotation, and is restored after its end."""
    cluster.back_up(OLD_KEY, KEY)
    await cluster.restore()
    assert cluster.layout.encryption_key.read_bytes() == _key_file(KEY)


async def test_text_that_is_no_list_of_tags_is_damage(cluster: Cluster) -> None:
    for tags in ("", "[]", "{", '{"a": 1}'):
        with closing(sqlite3.connect(cluster.file)) as db, db:
            db.execute("UPDATE backup SET tags = ?", (tags,))
        assert (await cluster.refusal()).startswith(f"content: {cluster.file} is damaged: ")


def test_a_tag_is_for_one_digest_and_one_key() -> None:
    tags = tags_of("digest", [KEY, OLD_KEY])
    assert len(tags) == 2
    assert is_tagged(tags, "digest", [OTHER_KEY, KEY])
    assert not is_tagged(tags, "digest", [OTHER_KEY])
    assert not is_tagged({}, "digest", [KEY])
    with pytest.raises(TagMismatch):
        is_tagged(tags, "another", [KEY])
    own, other = tags_of("digest", [KEY]), tags_of("digest", [OTHER_KEY])
    with pytest.raises(TagMismatch):
        is_tagged(dict(zip(own, other.values(), strict=True)), "digest", [KEY])
    assert KEY.hex()[:16] not in "".join([*tags, *tags.values()]), "neither contains the key"
