"""A server that runs out of memory ends with one line and an exit code, and loses no acknowledged write."""

from __future__ import annotations

import resource
from pathlib import Path

import aiohttp
import pytest

from tests.faults.writers import BROKEN, PATH, session_for
from tests.support.tarmac_process import TarmacProcess


async def _write_until_it_ends(session: aiohttp.ClientSession, url: str) -> list[str]:
    """Return the acknowledged writes."""
    acknowledged: list[str] = []
    try:
        for number in range(4000):
            body = {"metadata": {"name": f"large-{number}"}, "data": {"padding": "x" * 400_000}}
            async with session.post(url, json=body) as answer:
                assert answer.status == 201, await answer.text()
                acknowledged.append(f"large-{number}")
    except BROKEN:
        return acknowledged
    raise AssertionError("the memory never ran out")


@pytest.mark.parametrize("megabytes", [20, 60])
async def test_a_server_without_memory_ends_with_a_line(tmp_path: Path, megabytes: int) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=") as server:
        pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (megabytes << 20)
        resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, limit))
        async with session_for(server.client_context()) as session:
            acknowledged = await _write_until_it_ends(session, server.url + PATH)
        assert server.wait(20) == 1
        assert server.log.read_text().splitlines()[-1].startswith("error: out of memory: the process ends here")
        server.start()
        async with session_for(server.client_context()) as session, session.get(server.url + PATH) as answer:
            found = {item["metadata"]["name"] for item in (await answer.json())["items"]}
    assert set(acknowledged) <= found
