"""A disk whose syncs take two seconds: reads are as fast as before, writes wait, leases are kept, health reports it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import pytest

from tests.faults.writers import PATH, session_for
from tests.support.tarmac_process import TarmacProcess

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SYNC_SECONDS = 2.0
RENEW_DEADLINE = 10.0  # of a lease's holder, in Kubernetes and here


class SlowDiskProcess(TarmacProcess):
    """A server with a disk that a test makes slow and fast again."""

    def __init__(self, data_dir: Path) -> None:
        self.control = data_dir.parent / "seconds"
        super().__init__(data_dir, program=("tests.faults.slow_disk", str(self.control)))


async def _timed(session: aiohttp.ClientSession, method: str, url: str, **options: Any) -> tuple[int, str, float]:
    started = monotonic()
    async with session.request(method, url, **options) as answer:
        return answer.status, await answer.text(), monotonic() - started


async def _renew(session: aiohttp.ClientSession, url: str, times: int) -> list[float]:
    """Renew like a lease's holder, concurrently with other writes; return the seconds of each."""
    took: list[float] = []
    for number in range(times):
        patch = {"spec": {"leaseTransitions": number}}
        headers = {"Content-Type": "application/merge-patch+json"}
        status, text, seconds = await _timed(session, "PATCH", f"{url}{LEASES}/held", json=patch, headers=headers)
        assert status == 200, text
        took.append(seconds)
    return took


async def _read(session: aiohttp.ClientSession, url: str, until: asyncio.Event) -> list[float]:
    took: list[float] = []
    while not until.is_set():
        status, text, seconds = await _timed(session, "GET", f"{url}{PATH}")
        assert status == 200, text
        took.append(seconds)
        await asyncio.sleep(0.05)
    return took


@pytest.mark.timeout(120)
async def test_a_slow_disk_delays_writes_and_nothing_else(tmp_path: Path) -> None:
    with SlowDiskProcess(tmp_path / "data") as server:
        url = server.url
        async with session_for(server.client_context()) as session:
            lease = {"metadata": {"name": "held"}, "spec": {"leaseDurationSeconds": 15}}
            assert (await _timed(session, "POST", url + LEASES, json=lease))[0] == 201
            assert (await _timed(session, "GET", f"{url}/readyz"))[0] == 200
            server.control.write_text(str(SYNC_SECONDS))
            done = asyncio.Event()
            reading = asyncio.create_task(_read(session, url, done))
            writes = [
                _timed(session, "POST", url + PATH, json={"metadata": {"name": f"slow-{number}"}})
                for number in range(50)
            ]
            renewing = asyncio.create_task(_renew(session, url, 3))
            written = await asyncio.gather(*writes)
            assert {status for status, _, _ in written} == {201}
            slowest = max(seconds for _, _, seconds in written)
            assert 1.5 < slowest < 4 * SYNC_SECONDS, "a write waits for the previous batch and its own"
            status, text, _ = await _timed(session, "GET", f"{url}/readyz?verbose")
            assert (status, "[-]store-disk failed" in text, "[+]store ok" in text) == (500, True, True), text
            assert max(await renewing) < RENEW_DEADLINE, "a holder would have lost its lease"
            done.set()
            assert max(await reading) < 1.5, "reads waited for the disk"
            server.control.unlink()
            async with asyncio.timeout(30):
                while (await _timed(session, "GET", f"{url}/readyz"))[0] != 200:
                    await asyncio.sleep(0.1)
            assert (await _timed(session, "POST", url + PATH, json={"metadata": {"name": "quick"}}))[2] < 1.5
        assert "is slow: a sync" in server.log.read_text()
