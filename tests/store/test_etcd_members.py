"""A store that follows the members of its etcd: their endpoints, which of them respond, and the next start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tarmac.base.clock import SystemClock
from tarmac.store.etcd import EtcdStore
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.etcd.memberfollower import MemberFollower
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Unavailable
from tarmac.store.open import etcd_settings, follows_members, with_known_members
from tests.store.conftest import ETCDS, etcd_binary
from tests.store.objects import value
from tests.support.etcd import EtcdCluster

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(etcd_binary(ETCDS[-1]), tmp_path_factory.mktemp("etcd"), members=3)
    cluster.start()
    yield cluster
    cluster.stop()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.05)


async def added_learner(client: EtcdClient, peer_url: str) -> bool:
    try:
        await client.add_learner(peer_url)
    except Unavailable:
        return False
    return True


def url(cluster: EtcdCluster, number: int, file: Path) -> str:
    return f"etcd://{cluster.endpoints[number]}?compact=0&members={file}"


async def test_a_store_lists_members_and_keeps_their_endpoints(cluster: EtcdCluster, tmp_path: Path) -> None:
    file = tmp_path / "members"
    named = url(cluster, 1, file)
    assert follows_members(named)
    store = EtcdStore(etcd_settings(named))
    await store.start()
    try:
        await until(store.members)
        assert store.members() == {"m0": True, "m1": True, "m2": True}
        first, *others = cluster.endpoints[1], cluster.endpoints[0], cluster.endpoints[2]
        await until(file.exists)
        assert file.read_text().split() == [first, *sorted(others)], "the member that the URL names comes first"
        assert with_known_members(named).startswith(f"etcd://{','.join([first, *sorted(others)])}?")
    finally:
        await store.close()


async def test_a_lost_member_is_reported_and_calls_go_to_the_others(cluster: EtcdCluster, tmp_path: Path) -> None:
    file = tmp_path / "members"
    settings = etcd_settings(url(cluster, 0, file))
    client = EtcdClient(settings, CLOCK)
    follower = MemberFollower(client, settings.endpoints, file, CLOCK)
    await follower.look()
    cluster.kill_member(0)
    try:
        await follower.look()
        assert follower.answering == {"m0": False, "m1": True, "m2": True}
        assert client.member in cluster.endpoints[1:]
        # The next start finds the others, though the URL names the lost one alone.
        store = EtcdStore(etcd_settings(url(cluster, 0, file)))
        await store.start()
        try:
            made = await store.create("core/pods", "default/a", value("a"))
            assert made.revision
        finally:
            await store.close()
    finally:
        cluster.start_member(0)
        cluster.wait_ready()
        await client.close()


async def test_learners_get_their_vote_and_members_are_removed(cluster: EtcdCluster) -> None:
    client = EtcdClient(EtcdSettings((cluster.endpoints[0],)), CLOCK)
    try:
        # A member that was restarted just now counts as unhealthy for some seconds, and nothing is added until then.
        async with asyncio.timeout(30):
            while not await added_learner(client, "http://127.0.0.1:1"):
                await asyncio.sleep(0.2)
        [added] = [each for each in await client.members() if not each.name]
        assert added.is_learner
        assert list(added.peer_urls) == ["http://127.0.0.1:1"]
        await client.remove(added.id)
        assert len(await client.members()) == 3
    finally:
        await client.close()


def test_a_file_of_members_with_other_content_is_named(tmp_path: Path) -> None:
    (tmp_path / "members").write_text("nonsense\n")
    with pytest.raises(ValueError, match="'nonsense' is not HOST:PORT"):
        etcd_settings(f"etcd://127.0.0.1:1?members={tmp_path / 'members'}")


def test_a_url_without_the_option_follows_nothing() -> None:
    assert not follows_members("etcd://127.0.0.1:2379?compact=0")
    assert not follows_members("sqlite:///var/lib/tarmac/store.db")
