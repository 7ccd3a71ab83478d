"""Stores to test: each driver, which a test can open any number of times at the same place."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.base.clock import Clock
from tarmac.store.etcd import EtcdStore
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Sealer, Store
from tarmac.store.memory import MemoryStore
from tarmac.store.sqlite import SqliteStore
from tests.support.etcd import EtcdCluster, find_etcd, find_peer_etcd
from tools.debs import fetch
from tools.fetch_etcd import ETCD

_prefixes = itertools.count()


class Place:
    """The place of a store. `open` starts a store there; the end of the test closes all open ones."""

    def __init__(self) -> None:
        self.stores: list[Store] = []

    def make(self, *, sealer: Sealer | None = None, clock: Clock | None = None) -> Store:
        """Return a store, not started."""
        raise NotImplementedError

    async def open(self, *, sealer: Sealer | None = None, clock: Clock | None = None) -> Store:
        """Return a started store."""
        store = self.make(sealer=sealer, clock=clock)
        await store.start()
        self.stores.append(store)
        return store

    async def close(self, store: Store) -> None:
        """Close one early."""
        self.stores.remove(store)
        await store.close()

    async def close_all(self) -> None:
        """Close the rest."""
        while self.stores:
            await self.stores.pop().close()

    def at_rest(self) -> bytes:
        """Return the content of all files."""
        raise NotImplementedError


class MemoryPlace(Place):
    """No place at all."""

    def make(self, *, sealer: Sealer | None = None, clock: Clock | None = None) -> Store:
        """An empty store."""
        return MemoryStore(clock=clock)


class SqlitePlace(Place):
    """A file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "store.db"

    def make(self, *, sealer: Sealer | None = None, clock: Clock | None = None, **options: Any) -> SqliteStore:
        """A store in the file."""
        return SqliteStore(self.path, sealer=sealer, clock=clock, **options)

    def at_rest(self) -> bytes:
        """The file and its log."""
        return b"".join(path.read_bytes() for path in self.path.parent.glob("store.db*"))


class EtcdPlace(Place):
    """A prefix of its own in a cluster."""

    def __init__(self, cluster: EtcdCluster, folder: Path) -> None:
        super().__init__()
        self.cluster = cluster
        self.folder = folder
        self.settings = self.settings_for(cluster.endpoints)

    @staticmethod
    def settings_for(endpoints: list[str]) -> EtcdSettings:
        """A prefix that no other test uses, without compaction."""
        return EtcdSettings(endpoints=tuple(endpoints), prefix=f"/test/{next(_prefixes)}", compact_seconds=0)

    def make(self, *, sealer: Sealer | None = None, clock: Clock | None = None) -> EtcdStore:
        """A store under the prefix."""
        return EtcdStore(self.settings, sealer=sealer, clock=clock)

    def at_rest(self) -> bytes:
        """Return the content of the members' files."""
        return b"".join(path.read_bytes() for path in self.folder.rglob("*") if path.is_file())


def etcd_binary(which: str) -> Path:
    """Return Debian's etcd, fetched if need be, or the peer's."""
    if which == "etcd-peer":
        peer = find_peer_etcd()
        assert peer is not None, "PEERS=1, but no etcd was built from source"
        return peer
    found = find_etcd()
    if found is not None:
        return found
    try:
        return fetch(*ETCD)
    except RuntimeError as error:
        pytest.skip(f"NO ETCD, SO THE ETCD DRIVER IS NOT TESTED: {error}")


ETCDS = ["etcd", *(["etcd-peer"] if find_peer_etcd() is not None else [])]


class EtcdClusters:
    """One member of each available etcd, started when first needed, shared by all tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clusters: dict[str, tuple[EtcdCluster, Path]] = {}

    def get(self, which: str) -> tuple[EtcdCluster, Path]:
        """Return the cluster and its data folder."""
        if which not in self._clusters:
            folder = self._folder / which
            folder.mkdir()
            cluster = EtcdCluster(etcd_binary(which), folder)
            self._clusters[which] = cluster, folder
            cluster.start()
        return self._clusters[which]

    def stop(self) -> None:
        """End them all."""
        for cluster, _ in self._clusters.values():
            cluster.stop()


@pytest.fixture(scope="session")
def etcds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdClusters]:
    """Running etcds."""
    clusters = EtcdClusters(tmp_path_factory.mktemp("etcd"))
    yield clusters
    clusters.stop()


def _make_place(driver: str, folder: Path, etcds: EtcdClusters) -> Place:
    if driver == "memory":
        return MemoryPlace()
    if driver == "sqlite":
        return SqlitePlace(folder)
    return EtcdPlace(*etcds.get(driver))


@pytest.fixture(params=["memory", "sqlite", *ETCDS])
async def place(request: pytest.FixtureRequest, tmp_path: Path, etcds: EtcdClusters) -> AsyncIterator[Place]:
    """Each driver in turn."""
    place = _make_place(request.param, tmp_path, etcds)
    yield place
    await place.close_all()


@pytest.fixture(params=["sqlite", *ETCDS])
async def durable_place(request: pytest.FixtureRequest, tmp_path: Path, etcds: EtcdClusters) -> AsyncIterator[Place]:
    """Each driver that outlives its process."""
    place = _make_place(request.param, tmp_path, etcds)
    yield place
    await place.close_all()


@pytest.fixture
async def sqlite_place(tmp_path: Path) -> AsyncIterator[SqlitePlace]:
    """A SQLite file."""
    place = SqlitePlace(tmp_path)
    yield place
    await place.close_all()


@pytest.fixture(params=ETCDS)
async def etcd_place(request: pytest.FixtureRequest, etcds: EtcdClusters) -> AsyncIterator[EtcdPlace]:
    """Each etcd in turn."""
    place = EtcdPlace(*etcds.get(request.param))
    yield place
    await place.close_all()


@pytest.fixture
async def store(place: Place) -> Store:
    """A started, empty store of each driver."""
    return await place.open()
