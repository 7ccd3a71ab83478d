"""A new key for Secrets at rest: every server reads them at every stage, and nothing needs the old key in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tarmac.api.rotations import TRUSTS, opens_with, seals_with
from tarmac.apps.backups.restore import changes_of
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.server.security.keys.encryption import SecretSealer, follow_keys, read_keys
from tarmac.server.security.keys.encryptionrotation import EncryptionRotation
from tarmac.store.backups.etcdplace import EtcdPlace
from tarmac.store.backups.storecopies import copy_store
from tarmac.store.interface import Store, Unavailable
from tarmac.store.open import open_store
from tarmac.store.sqlite.sums import LogRow
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster

SECRETS = "core/secrets"


class Server:
    """A server's own state: a key file and a connection to the store."""

    def __init__(self, url: str, file: Path) -> None:
        self.url = url
        self.file = file
        self.clock = ManualClock()

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[Store]:
        self.sealer = SecretSealer.from_file(self.file, Randomness())
        self.store = open_store(self.url, sealer=self.sealer)
        await self.store.start()
        self.rotation = EncryptionRotation(self.store, self.file, self.clock, Randomness())
        try:
            yield self.store
        finally:
            await self.store.close()

    async def advance(self) -> str:
        """Advance the clock and let the server reconcile; return the stage."""
        follow_keys(self.file, self.rotation.record)
        self.clock.advance(16.0)
        looking = asyncio.ensure_future(self.rotation.advance())
        while not looking.done():
            await asyncio.sleep(0.001)
            self.clock.advance(0.01)
        await looking
        return (await self.rotation.status())["stage"]


async def fill(store: Store, count: int, size: int = 50) -> None:
    for number in range(count):
        value = b'{"metadata":{"name":"s%d","namespace":"x"},"data":"%b"}' % (number, b"d" * size)
        await store.create(SECRETS, f"x/s{number}", value)


def read(store: Store) -> list[bytes]:
    return [entry.raw.rpartition(b'"data"')[2] for entry in store.list(SECRETS).entries]


async def test_after_the_old_key_is_retired_nothing_needs_it(tmp_path: Path) -> None:
    server = Server(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "secrets.key")
    async with server.started() as store:
        await fill(store, 50)
        known = read(store)
        await server.rotation.begin()
        assert (await server.rotation.status())["stage"] == "trusted"
        assert await server.advance() == "sealing"
        assert await server.rotation.obstacles() != []
        before = server.rotation.record
        await server.rotation.retire()
        assert server.rotation.record == before, "Secrets would be lost"
    async with server.started() as store:  # killed, and it goes on
        assert read(store) == known
        assert await server.advance() == "sealed"
        await server.rotation.retire()
        follow_keys(server.file, server.rotation.record)
        assert [key for key, _ in read_keys(server.file)] == [server.rotation.record.signing]
    async with server.started() as store:
        assert read(store) == known
        assert (await server.rotation.status())["stage"] == "settled"


async def test_a_retirement_that_is_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "secrets.key")
    async with server.started() as store:
        await fill(store, 3)
        await server.rotation.begin()
        while await server.advance() != "sealed":
            pass

        async def killed(_: int) -> None:
            raise Unavailable("killed")

        monkeypatch.setattr(store, "compact", killed)
        with pytest.raises(Unavailable):
            await server.rotation.retire()
    async with server.started() as store:
        assert await server.advance() == "settled"
        follow_keys(server.file, server.rotation.record)
    async with server.started() as store:
        assert len(read(store)) == 3


async def test_a_file_with_a_new_first_key_is_a_rotation_that_is_begun_by_the_command(tmp_path: Path) -> None:
    server = Server(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "secrets.key")
    async with server.started() as store:
        await fill(store, 3)
    lines = server.file.read_text()
    SecretSealer.from_file(tmp_path / "other.key", Randomness())
    server.file.write_text((tmp_path / "other.key").read_text().replace("key1", "mine") + lines)
    async with server.started() as store:
        await server.rotation.advance()
        assert server.rotation.record.step == 0, "no rotation was requested"
        await server.rotation.begin()
        while await server.advance() != "sealed":
            pass
        await server.rotation.retire()
        follow_keys(server.file, server.rotation.record)
        assert [key for key, _ in read_keys(server.file)] == ["mine"]
    async with server.started() as store:
        assert len(read(store)) == 3


async def test_rewriting_holds_nobody_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "secrets.key")
    async with server.started() as store:
        await asyncio.gather(*(fill_one(store, number) for number in range(300)))
        await server.rotation.begin()
        while await server.advance() != "sealing":
            pass
        held: list[float] = []
        watching = asyncio.ensure_future(_watch(held))
        while await server.advance() != "sealed":
            pass
        watching.cancel()
        assert store.list(SECRETS).entries[0].revision > server.rotation.record.floor
    with capsys.disabled():
        print(f"\n300 Secrets of 20 kB sealed anew: the longest turn of the loop {max(held) * 1000:.1f} ms")
    assert max(held) < 0.05


async def fill_one(store: Store, number: int) -> None:
    value = b'{"metadata":{"name":"b%d","namespace":"x"},"data":"%b"}' % (number, b"d" * 20_000)
    await store.create(SECRETS, f"x/b{number}", value)


async def _watch(held: list[float]) -> None:
    """Return the processor time of this thread between two of our turns."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(0)
        held.append(time.thread_time() - before)


async def test_a_server_that_was_away_opens_what_the_others_sealed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "etcd").mkdir()
    etcd = EtcdCluster(etcd_binary(ETCDS[-1]), tmp_path / "etcd")
    etcd.start()
    try:
        url = f"etcd://{etcd.endpoints[0]}?prefix=/away"
        one = Server(url, tmp_path / "one.key")
        away = Server(url, tmp_path / "away.key")
        async with one.started() as store:
            away.file.write_bytes(one.file.read_bytes())
            away.file.chmod(0o600)
            await fill(store, 10)
            known = read(store)
            await one.rotation.begin()
            await announce(one)
            while await one.advance() != "sealed":
                await announce(one)
            async with away.started() as other:
                assert read(other) == known
                assert away.sealer.sealing == one.rotation.record.signing
            await one.rotation.retire()
        with pytest.raises(Unavailable, match="which the encryption key file does not have"):
            async with away.started():
                pass
    finally:
        etcd.stop()


async def test_restored_secrets_are_resealed_before_the_old_key_is_retired(tmp_path: Path) -> None:
    """In etcd all objects get new revisions, and stay encrypted as before."""
    (tmp_path / "etcd").mkdir()
    etcd = EtcdCluster(etcd_binary(ETCDS[-1]), tmp_path / "etcd")
    etcd.start()
    try:
        server = Server(f"etcd://{etcd.endpoints[0]}?prefix=/restored", tmp_path / "secrets.key")
        async with server.started() as store:
            await fill(store, 10)
            known = read(store)
            await server.rotation.begin()
            while not server.rotation.record.floor:
                await announce(server)
                await server.advance()
        await restore_its_own_backup(server)
        async with server.started():
            while await server.advance() != "sealed":
                await announce(server)
            await server.rotation.retire()
            follow_keys(server.file, server.rotation.record)
        async with server.started() as store:
            assert read(store) == known
    finally:
        etcd.stop()


async def restore_its_own_backup(server: Server) -> None:
    rows: list[LogRow] = []
    revision = await copy_store(server.url, server.clock, rows.extend)
    place = EtcdPlace(server.url, server.clock)
    try:
        await place.replace(rows, changes_of(rows, [], server.clock.now()), revision, 0)
        await place.rename()
    finally:
        await place.close()


async def announce(server: Server) -> None:
    """Publish a server's key state in its Lease."""
    words = [*(opens_with(key) for key, _ in read_keys(server.file)), seals_with(server.sealer.sealing)]
    text = f'"annotations":{{"{TRUSTS}":"{" ".join(words)}"}}'
    value = f'{{"metadata":{{"name":"apiserver-one","namespace":"kube-system",{text}}},"spec":{{}}}}'.encode()
    name = "kube-system/apiserver-one"
    known = server.store.get("coordination.k8s.io/leases", name)
    if known is None:
        await server.store.create("coordination.k8s.io/leases", name, value)
    else:
        await server.store.update("coordination.k8s.io/leases", name, value, known.revision)
