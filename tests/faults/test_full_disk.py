"""The disk under a running server fills up: `/readyz` fails, reads go on, and writes succeed when there is room again.

The server's log and audit log lie on the same disk.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.faults.writers import PATH, session_for
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a store, and a little more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"CANNOT MOUNT A SMALL DISK, so a full one is not tested: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def _fill(ballast: Path) -> None:
    with ballast.open("wb") as file:
        free = os.statvfs(ballast.parent)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - 100_000)  # the server writes meanwhile


async def _write_until_refused(session: aiohttp.ClientSession, url: str) -> str:
    for number in range(200):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"padding": "x" * 900_000}}
        async with session.post(url + PATH, json=body) as answer:
            if answer.status != 201:
                return f"{answer.status} {await answer.text()}"
    raise AssertionError("the disk never filled up")


async def _ready(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(f"{url}/readyz?verbose") as answer:
        return answer.status, await answer.text()


@pytest.mark.root
async def test_a_full_disk_shows_in_readyz_and_heals(disk: Path) -> None:
    with TarmacProcess(disk / "data", "--controllers=") as server:
        async with session_for(server.client_context()) as session:
            assert (await _ready(session, server.url))[0] == 200
            _fill(disk / "ballast")
            status, text = await _ready(session, server.url)
            assert (status, "[-]store-disk failed" in text) == (500, True), text
            async with session.get(f"{server.url}/metrics") as answer:
                assert 'kubernetes_healthcheck{name="store-disk",type="readyz"} 0\n' in await answer.text()
            refusal = await _write_until_refused(session, server.url)
            assert refusal.startswith("503 ")
            assert "the disk is full" in refusal, refusal
            async with session.get(f"{server.url}{PATH}/large-0") as answer:
                assert answer.status == 200, "reads stopped with the writes"
            (disk / "ballast").unlink()
            async with asyncio.timeout(20):
                while (await _ready(session, server.url))[0] != 200:
                    await asyncio.sleep(0.1)
            async with session.post(server.url + PATH, json={"metadata": {"name": "later"}}) as answer:
                assert answer.status == 201, await answer.text()
