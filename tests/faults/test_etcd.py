"""A server on three etcd members: their leader is killed repeatedly, and the quorum is lost.

3 kills of the leader here, 100 with `make soak`, under write load through the server. No acknowledged write is lost,
every watcher sees every version once and in order. Without a quorum every request gets its error within 5 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import pytest

from tests.faults.test_kill_nine import check_books, settle
from tests.faults.writers import PATH, Watcher, Writer, session_for
from tests.soak import SOAK
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.tarmac_process import TarmacProcess

KILLS = 100 if SOAK else 3
WRITERS = 8
WATCHERS = 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EtcdCluster]:
    """Three members."""
    folder = tmp_path / "etcd"
    folder.mkdir()
    cluster = EtcdCluster(etcd_binary(ETCDS[-1]), folder, members=3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def server(cluster: EtcdCluster, tmp_path: Path) -> Iterator[TarmacProcess]:
    """A server on them, without controllers."""
    store = f"etcd://{','.join(cluster.endpoints)}?compact=0"
    with TarmacProcess(tmp_path / "data", "--store", store, "--controllers=") as server:
        yield server


@pytest.mark.soak(minutes=15)
@pytest.mark.timeout(KILLS * 15 + 120)
async def test_killed_leaders_lose_nothing(cluster: EtcdCluster, server: TarmacProcess) -> None:
    async with session_for(server.client_context()) as session:
        writers = [Writer(session, server.url, f"key-{number}", accepts=(409, 503)) for number in range(WRITERS)]
        async with session.get(server.url + PATH) as answer:
            start = int((await answer.json())["metadata"]["resourceVersion"])
        watchers = [Watcher(session, server.url, start) for _ in range(WATCHERS)]
        stop = asyncio.Event()
        watching = [asyncio.create_task(watcher.run()) for watcher in watchers]
        writing = [asyncio.create_task(writer.run(stop)) for writer in writers]
        for _ in range(KILLS):
            await _kill_leader(cluster, writers)
        stop.set()
        await asyncio.gather(*writing)
        final = await settle(server, watchers)
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    check_books(writers, watchers, final)
    acknowledged = sum(len(writer.books.acknowledged) for writer in writers)
    unknown = sum(len(writer.books.unknown) for writer in writers)
    print(f"\n{KILLS} leaders killed: {acknowledged} acknowledged writes, {unknown} of unknown fate")
    assert acknowledged > KILLS * 20, "the load was too small for a proof"
    assert all(watcher.resumed == 1 for watcher in watchers), "a watch broke although its server lives"


async def _kill_leader(cluster: EtcdCluster, writers: list[Writer]) -> None:
    """Kill the leader under load; return when all writers write again and the member has returned."""
    leader = await asyncio.to_thread(cluster.leader)
    cluster.kill_member(leader)
    counts = [len(writer.books.acknowledged) for writer in writers]
    async with asyncio.timeout(30):
        while any(len(writer.books.acknowledged) < n + 2 for writer, n in zip(writers, counts, strict=True)):
            await asyncio.sleep(0.02)
    cluster.start_member(leader)
    await asyncio.to_thread(cluster.wait_ready)


async def _timed(session: aiohttp.ClientSession, method: str, url: str, **options: Any) -> tuple[int, str, float]:
    started = monotonic()
    async with session.request(method, url, **options) as answer:
        return answer.status, await answer.text(), monotonic() - started


@pytest.mark.timeout(120)
async def test_without_a_quorum_everybody_is_told_within_five_seconds(
    cluster: EtcdCluster, server: TarmacProcess
) -> None:
    """Consistent reads and writes get 503; reads of any version succeed; all requests succeed when it is back."""
    one = {"metadata": {"name": "one"}}
    async with session_for(server.client_context()) as session:
        assert (await _timed(session, "POST", server.url + PATH, json=one))[0] == 201
        for number in (1, 2):
            cluster.kill_member(number)
        for burst in range(2):  # the second burst joins requests that still wait
            asked = [
                _timed(session, "GET", f"{server.url}{PATH}/one"),
                _timed(session, "GET", server.url + PATH),
                _timed(session, "GET", f"{server.url}{PATH}?watch=1&timeoutSeconds=1"),
                _timed(session, "POST", server.url + PATH, json={"metadata": {"name": f"two-{burst}"}}),
                _timed(session, "DELETE", f"{server.url}{PATH}/one"),
            ]
            for status, text, seconds in await asyncio.gather(*asked):
                assert (status, seconds < 5) == (503, True), (status, seconds, text)
                assert "etcd did not answer in time: it has no leader, or cannot be reached" in text
        status, text, seconds = await _timed(session, "GET", f"{server.url}{PATH}/one?resourceVersion=0")
        assert (status, seconds < 1) == (200, True), text
        status, text, seconds = await _timed(session, "GET", f"{server.url}{PATH}?resourceVersion=0")
        assert (status, seconds < 1) == (200, True), text
        status, text, _ = await _timed(session, "GET", f"{server.url}/readyz")
        assert (status, "[-]store failed" in text) == (500, True)
        for number in (1, 2):
            cluster.start_member(number)
        await asyncio.to_thread(cluster.wait_ready)
        async with asyncio.timeout(20):
            while (await _timed(session, "GET", f"{server.url}/readyz"))[0] != 200:
                await asyncio.sleep(0.05)
        assert (await _timed(session, "GET", server.url + PATH))[0] == 200
        assert (await _timed(session, "POST", server.url + PATH, json={"metadata": {"name": "three"}}))[0] == 201
