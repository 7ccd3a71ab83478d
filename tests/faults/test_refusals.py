"""A rejection is never ahead of reads: a client that loses to another client's write can read that write.

2 to 16 clients race over HTTPS for one object, 60 rounds of each race here, 300 with `make soak`: on SQLite, on etcd,
and on two servers that share an etcd, where each client stays with one of them. A rejected client reads at once; the
read must show the reason. Create-or-get and retry-on-conflict loops, as client libraries have them, take as many turns
as there is progress elsewhere, and no more.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.writers import PATH, session_for
from tests.soak import SOAK
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.tarmac_process import TarmacProcess

ROUNDS = 300 if SOAK else 20
CLIENTS = (2, 4, 8, 16) if SOAK else (2, 16)

pytestmark = [pytest.mark.soak(minutes=2), pytest.mark.timeout(ROUNDS * 4 + 60)]


class Api:
    """One client of one of the servers."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url + PATH

    async def __call__(self, method: str, name: str = "", body: Any = None) -> tuple[int, Any]:
        url = f"{self._url}/{name}" if name else self._url
        async with self._session.request(method, url, json=body) as answer:
            return answer.status, await answer.json()

    async def create(self, name: str) -> tuple[int, Any]:
        return await self("POST", "", {"metadata": {"name": name}, "data": {"turn": "0"}})

    async def count(self, name: str, version: str | None, turn: int) -> tuple[int, Any]:
        return await self(
            "PUT", name, {"metadata": {"name": name, "resourceVersion": version}, "data": {"turn": str(turn)}}
        )


@pytest.fixture(scope="module", params=["sqlite", "etcd", "two servers"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TarmacProcess]]:
    """Servers without controllers, in one folder with the keys they share."""
    folder = tmp_path_factory.mktemp("refusals")
    flags = ["--controllers=", "--pki-dir", str(folder / "pki")]
    flags += ["--encryption-key-file", str(folder / "secrets.key")]
    with ExitStack() as stack:
        if request.param != "sqlite":
            flags += ["--store", f"etcd://{','.join(_etcd(folder, stack).endpoints)}"]
        names = ("one", "two") if request.param == "two servers" else ("one",)
        yield [stack.enter_context(TarmacProcess(folder / name, *flags)) for name in names]


def _etcd(folder: Path, stack: ExitStack) -> EtcdCluster:
    data = folder / "etcd"
    data.mkdir()
    cluster = EtcdCluster(etcd_binary(ETCDS[-1]), data)
    stack.callback(cluster.stop)
    cluster.start()
    return cluster


@pytest.fixture
async def clients(servers: list[TarmacProcess]) -> AsyncIterator[list[Api]]:
    """The most clients that race, alternating between the servers."""
    context = ssl.create_default_context(cafile=str(servers[0].data_dir.parent / "pki" / "ca.crt"))
    context.load_cert_chain(*servers[0].admin_credentials())
    async with session_for(context) as session:
        yield [Api(session, servers[number % len(servers)].url) for number in range(max(CLIENTS))]


@pytest.mark.parametrize("racing", CLIENTS)
async def test_objects_reported_as_existing_are_readable(clients: list[Api], racing: int) -> None:
    stale: list[str] = []

    async def create_or_get(api: Api, name: str) -> int:
        status, answer = await api.create(name)
        if status == 409:
            assert answer["reason"] == "AlreadyExists", answer
            if (await api("GET", name))[0] != 200:
                stale.append(name)
        return status

    for number in range(ROUNDS):
        name = f"create-{racing}-{number}"
        statuses = await asyncio.gather(*(create_or_get(api, name) for api in clients[:racing]))
        assert sorted(statuses) == [201] + [409] * (racing - 1)
    assert not stale, f"{len(stale)} of {ROUNDS * (racing - 1)} refusals were ahead of reads"


@pytest.mark.parametrize("racing", CLIENTS)
async def test_newer_versions_are_readable_after_a_conflict(clients: list[Api], racing: int) -> None:
    name = f"conflict-{racing}"
    version = (await clients[0].create(name))[1]["metadata"]["resourceVersion"]
    stale = 0

    async def put_or_get(api: Api, turn: int) -> tuple[int, str]:
        nonlocal stale
        status, answer = await api.count(name, version, turn)
        if status == 409:
            _, answer = await api("GET", name)
            stale += answer["metadata"]["resourceVersion"] == version
        return status, answer["metadata"]["resourceVersion"]

    for number in range(ROUNDS):
        answers = await asyncio.gather(
            *(put_or_get(api, number * racing + i + 1) for i, api in enumerate(clients[:racing]))
        )
        assert sorted(status for status, _ in answers) == [200] + [409] * (racing - 1)
        version = answers[0][1]
    assert not stale, f"{stale} of {ROUNDS * (racing - 1)} refusals were ahead of reads"


@pytest.mark.parametrize("racing", CLIENTS)
async def test_objects_reported_as_deleted_are_not_readable(clients: list[Api], racing: int) -> None:
    stale = 0

    async def delete_and_get(api: Api, name: str) -> int:
        nonlocal stale
        status, _ = await api("DELETE", name)
        stale += (await api("GET", name))[0] != 404
        return status

    for number in range(ROUNDS):
        name = f"delete-{racing}-{number}"
        await clients[number % racing].create(name)
        statuses = await asyncio.gather(*(delete_and_get(api, name) for api in clients[:racing]))
        assert sorted(statuses) == [200] + [404] * (racing - 1)
    assert not stale, f"{stale} of {ROUNDS * racing} answers were ahead of reads"


@pytest.mark.parametrize("racing", CLIENTS)
async def test_a_loop_that_retries_on_conflict_never_spins(clients: list[Api], racing: int) -> None:
    """Each conflict is a success of another client, so a client has no more conflicts than competitors."""
    name, most = f"retry-{racing}", 0
    await clients[0].create(name)

    async def increment(api: Api) -> None:
        nonlocal most
        for attempt in range(10 * racing):
            _, found = await api("GET", name)
            version, turn = found["metadata"]["resourceVersion"], int(found["data"]["turn"])
            if (await api.count(name, version, turn + 1))[0] == 200:
                most = max(most, attempt)
                return
        raise AssertionError("retried for ever")

    for _ in range(ROUNDS):
        await asyncio.gather(*(increment(api) for api in clients[:racing]))
    _, found = await clients[0]("GET", name)
    assert found["data"]["turn"] == str(ROUNDS * racing)
    assert most < racing, f"refused {most} times by {racing - 1} others"


async def test_no_server_refuses_writes_based_on_acknowledged_state(clients: list[Api]) -> None:
    """A client whose requests are spread over the servers: each write depends on the previous one."""
    for number in range(ROUNDS):
        name, (one, two) = f"spread-{number}", clients[:2]
        status, made = await one.create(name)
        assert status == 201
        status, made = await two.count(name, made["metadata"]["resourceVersion"], 1)
        assert status == 200, made
        status, made = await one.count(name, made["metadata"]["resourceVersion"], 2)
        assert status == 200, made
        status, made = await two("DELETE", name)
        assert status == 200, made
        status, made = await one.create(name)
        assert status == 201, made
