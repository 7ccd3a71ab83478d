"""A server with thousands of watches is killed and comes back: all resume where they were, in bounded time and memory.

300 watches here, 5,000 with `make soak`. None lists again, so a lost or repeated event shows.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import aiohttp
import pytest

from tests.faults.writers import PATH, Watcher, session_for
from tests.soak import SOAK
from tests.support.tarmac_process import TarmacProcess

WATCHES = 5000 if SOAK else 300
BYTES_PER_WATCH = 100_000  # a TLS connection and its watcher, with room
AT_ONCE = 100  # handshakes: all clients are one process here, which more would overload
WAITED_FOR = 30 + WATCHES * 0.04  # handshakes: about ten requests' worth of CPU each, on both sides


async def _write(session: aiohttp.ClientSession, url: str, numbers: range) -> int:
    """Write once; return the version."""
    version = 0
    for number in numbers:
        body = {"metadata": {"name": f"key-{number}"}, "data": {"number": str(number)}}
        async with session.post(url + PATH, json=body) as answer:
            assert answer.status == 201, await answer.text()
            version = int((await answer.json())["metadata"]["resourceVersion"])
    return version


async def _reached(watchers: list[Watcher], version: int, started: float) -> float:
    """Return the time until all watchers have reached the version."""
    async with asyncio.timeout(WAITED_FOR):
        while any(watcher.version < version for watcher in watchers):
            await asyncio.sleep(0.05)
    return monotonic() - started


def _resident(server: TarmacProcess) -> int:
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.soak(minutes=4)
@pytest.mark.timeout(120 + 4 * WAITED_FOR)
async def test_every_watch_resumes_after_a_restart(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=") as server:
        async with session_for(server.client_context(), limit=0, connect=WAITED_FOR) as session:
            url = server.url
            alone = _resident(server)
            async with session.get(url + PATH) as answer:
                start = int((await answer.json())["metadata"]["resourceVersion"])
            began = monotonic()
            connecting = asyncio.Semaphore(AT_ONCE)
            watchers = [Watcher(session, url, start, connecting) for _ in range(WATCHES)]
            tasks = [asyncio.create_task(watcher.run()) for watcher in watchers]
            joined = await _reached(watchers, await _write(session, url, range(20)), began)
            before = _resident(server)
            server.kill()
            await asyncio.to_thread(server.start)
            began = monotonic()
            resumed = await _reached(watchers, await _write(session, url, range(20, 40)), began)
            after = _resident(server)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    print(f"\n{WATCHES} watches: joined in {joined:.1f} s, resumed in {resumed:.1f} s after the restart; ", end="")
    print(f"{(before - alone) / WATCHES / 1000:.1f} and {(after - alone) / WATCHES / 1000:.1f} KB each")
    for watcher in watchers:
        assert not watcher.refused, watcher.refused[:1]
        assert [number for _, _, number, _ in watcher.events] == list(range(40)), "events were lost or repeated"
    assert max(before, after) - alone < WATCHES * BYTES_PER_WATCH
