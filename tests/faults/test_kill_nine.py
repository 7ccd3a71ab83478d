"""The server is killed with kill -9 under write load, repeatedly; all its acknowledged writes must be there.

15 kills here, 1,000 in a soak. Three claims, each checked against the writers' own records: no acknowledged write is
lost; every watcher sees every version exactly once and in order; watches resume across restarts, none by a relist.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.faults.writers import Watcher, Writer, session_for
from tests.soak import SOAK
from tests.support.tarmac_process import TarmacProcess

KILLS = 1000 if SOAK else 15
WRITERS = 12
WATCHERS = 3


@pytest.mark.soak(minutes=20)
@pytest.mark.timeout(KILLS * 6 + 60)
async def test_nothing_acknowledged_is_lost_and_no_event_is_skipped_or_repeated(tmp_path: Path) -> None:
    seed = int(os.environ.get("TARMAC_SEED", "20261115"))
    with TarmacProcess(tmp_path / "data") as server:
        writers, watchers = await load_and_kill(server, random.Random(seed))
    acknowledged = sum(len(writer.books.acknowledged) for writer in writers)
    resumed = sum(watcher.resumed for watcher in watchers)
    unknown = sum(len(writer.books.unknown) for writer in writers)
    print(f"\n{KILLS} kills: {acknowledged} acknowledged writes, {unknown} of unknown fate, {resumed} watches resumed")
    assert acknowledged > KILLS * 5, "the load was too small for a proof"
    assert resumed >= WATCHERS * KILLS * 0.5, "watches were not resumed across the restarts"


async def load_and_kill(server: TarmacProcess, dice: random.Random) -> tuple[list[Writer], list[Watcher]]:
    """Run the whole scenario and check the records at its end."""
    async with session_for(server.client_context()) as session:
        writers = [Writer(session, server.url, f"key-{number}") for number in range(WRITERS)]
        async with session.get(server.url + "/api/v1/namespaces/default/configmaps") as answer:
            start = int((await answer.json())["metadata"]["resourceVersion"])
        watchers = [Watcher(session, server.url, start) for _ in range(WATCHERS)]
        stop = asyncio.Event()
        tasks = [asyncio.create_task(watcher.run()) for watcher in watchers]
        writing = [asyncio.create_task(writer.run(stop)) for writer in writers]
        for number in range(KILLS):
            if number % 3:  # one kill in three comes before the watchers are back
                await resumed_since(watchers)
            await asyncio.sleep(dice.uniform(0.05, 0.4))
            server.kill()
            for watcher in watchers:
                watcher.following.clear()
            await asyncio.to_thread(server.start)
        await asyncio.sleep(0.3)
        stop.set()
        await asyncio.gather(*writing)
        final = await settle(server, watchers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        check_books(writers, watchers, final)
        return writers, watchers


async def resumed_since(watchers: list[Watcher]) -> None:
    """Wait until every watch is open again, without a time limit of its own."""
    async with asyncio.timeout(20):
        await asyncio.gather(*(watcher.following.wait() for watcher in watchers))


async def settle(server: TarmacProcess, watchers: list[Watcher]) -> dict[str, tuple[int, int]]:
    """The final state (name -> number, version), once every watcher has seen it."""
    async with (
        session_for(server.client_context()) as session,
        session.get(server.url + "/api/v1/namespaces/default/configmaps") as answer,
    ):
        items = (await answer.json())["items"]
    final = {
        item["metadata"]["name"]: (int(item["data"]["number"]), int(item["metadata"]["resourceVersion"]))
        for item in items
        if item["metadata"]["name"].startswith("key-")
    }
    newest = max(version for _, version in final.values())
    async with asyncio.timeout(20):
        while any(watcher.version < newest for watcher in watchers):
            await asyncio.sleep(0.02)
    return final


def check_books(writers: list[Writer], watchers: list[Watcher], final: dict[str, tuple[int, int]]) -> None:
    """Compare the writers' acknowledgements with the store and with the watchers' events."""
    for watcher in watchers:
        assert not watcher.refused, f"a watch could not be resumed: {watcher.refused[:3]}"
        versions = [version for *_, version in watcher.events]
        assert versions == sorted(set(versions)), "events were repeated or out of order"
        assert watcher.events == watchers[0].events, "two watchers saw different histories"
    seen = {(name, number): version for _, name, number, version in watchers[0].events}
    for writer in writers:
        books = writer.books
        for number, version in books.acknowledged.items():
            assert seen.get((books.name, number)) == version, f"{books.name}={number} was acknowledged but never seen"
        last = max(books.acknowledged, default=0)
        assert final[books.name][0] >= last, f"{books.name}: {last} was acknowledged, {final[books.name][0]} is stored"
        assert final[books.name][0] in books.acknowledged or final[books.name][0] in books.unknown
        numbers = [number for _, name, number, _ in watchers[0].events if name == books.name]
        assert numbers == sorted(numbers), f"{books.name}: writes were reordered"
        assert set(numbers) <= set(books.acknowledged) | books.unknown, f"{books.name}: a write nobody made"
