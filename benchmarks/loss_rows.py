"""The cost of a loss: one of three servers killed, the leader of their etcd killed, a worker of a server killed.

A client that knows every server writes one object after the other, and retries without a response: the result is the
time between the last response before a kill and the first after it, the longest of several kills. Every acknowledged
write must be there in the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import uvloop

from benchmarks.report import Row
from tarmac.api.status import AlreadyExists, ApiError
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import CONFIG_MAPS
from tests.support.etcd import EtcdCluster, find_etcd, find_peer_etcd
from tests.support.tarmac_process import TarmacProcess

_SERVERS = 3
_REST = 1.0
_READY = 'tarmac_server_processes{state="ready"} 2'


@dataclass
class _Writer:
    """Writes until it is stopped; records the time of each acknowledgement by object name."""

    client: Client
    acknowledged: dict[str, float] = field(default_factory=dict[str, float])

    async def run(self) -> None:
        for number in range(1_000_000):
            await self._write(f"written-{number}")

    async def _write(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        while name not in self.acknowledged:
            with suppress(ClientError, ApiError, TimeoutError):
                with suppress(AlreadyExists):  # the answer to an earlier attempt was lost
                    async with asyncio.timeout(5):
                        await self.client.resource(CONFIG_MAPS).create(body, namespace="default")
                self.acknowledged[name] = perf_counter()

    async def gap_around(self, loss: Callable[[], None]) -> float:
        """Return the seconds without an acknowledged write."""
        await asyncio.sleep(_REST)
        before = max(self.acknowledged.values())
        began = perf_counter()
        await asyncio.to_thread(loss)
        while (after := max(self.acknowledged.values())) <= began + 0.2 and perf_counter() < began + 60:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        times = sorted(at for at in self.acknowledged.values() if before <= at <= after)
        return max(later - earlier for earlier, later in pairwise(times))

    async def missing(self) -> int:
        """Return the number of acknowledged objects that are missing."""
        there = {each["metadata"]["name"] for each in (await self.client.resource(CONFIG_MAPS).list("default")).items}
        return len(self.acknowledged.keys() - there)


def loss_rows(directory: Path, repeat: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Measure, then yield the rows."""
    binary = find_peer_etcd() or find_etcd()
    assert binary is not None, "no etcd: run python -m tools.fetch_etcd"
    with ExitStack() as stack:
        folder = directory / "losses"
        (folder / "etcd").mkdir(parents=True)
        etcd = EtcdCluster(binary, folder / "etcd", _SERVERS)
        stack.callback(etcd.stop)
        etcd.start()
        store = f"etcd://{','.join(etcd.endpoints)}?compact=0"
        flags = (f"--store={store}", f"--pki-dir={folder / 'pki'}", f"--encryption-key-file={folder / 'secrets.key'}")
        servers = [stack.enter_context(TarmacProcess(folder / f"s{number}", *flags)) for number in range(_SERVERS)]
        say(f"killing servers, and leaders of their etcd, {repeat} times each")
        server, leader, missing = uvloop.run(_losses(servers, etcd, repeat))
        say(f"killing workers, {repeat} times")
        two = stack.enter_context(TarmacProcess(folder / "workers", *flags, "--processes=2"))
        back = uvloop.run(_workers(two, repeat))
    yield Row(f"server killed, 3 on 3: writes go on, the longest of {repeat}", "s", [max(server)], 2)
    yield Row(f"etcd's leader killed, 3 on 3: writes go on, the longest of {repeat}", "s", [max(leader)], 5)
    yield Row("acknowledged writes lost over all of these kills", "objects", [missing], 0)
    yield Row(f"worker killed of --processes 2: both ready again, the longest of {repeat}", "s", [max(back)], 3)


async def _losses(
    servers: list[TarmacProcess], etcd: EtcdCluster, repeat: int
) -> tuple[list[float], list[float], float]:
    config = replace(load(str(servers[0].kubeconfig)).http, servers=tuple(each.url for each in servers))
    writer = _Writer(Client(HttpTransport(config)))
    of_servers: list[float] = []
    of_leaders: list[float] = []
    async with background(writer.run(), "the writer"):
        await asyncio.sleep(_REST)
        for number in range(repeat):
            lost = servers[number % len(servers)]
            of_servers.append(await writer.gap_around(lost.kill))
            await asyncio.to_thread(lost.start)
            member = await asyncio.to_thread(etcd.leader)
            of_leaders.append(await writer.gap_around(lambda member=member: etcd.kill_member(member)))
            etcd.start_member(member)
            await asyncio.to_thread(etcd.wait_ready)
    missing = await writer.missing()
    await writer.client.close()
    return of_servers, of_leaders, missing


async def _workers(server: TarmacProcess, repeat: int) -> list[float]:
    """Return the seconds from a kill until the server reports both as ready."""
    client = Client(HttpTransport(load(str(server.kubeconfig)).http))
    found: list[float] = []
    for _ in range(repeat):
        pids = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        began = perf_counter()
        os.kill(int(pids[-1]), signal.SIGKILL)
        while not await _both_ready(client, pids[-1], server.pid) and perf_counter() < began + 60:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        found.append(perf_counter() - began)
    await client.close()
    return found


async def _both_ready(client: Client, dead: str, parent: int) -> bool:
    if dead in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        return False  # the server has not noticed yet
    with suppress(ClientError, ApiError):
        answer = await client.call("GET", "/metrics", headers={"accept": "*/*"}, timeout=2.0)
        return _READY.encode() in answer.body
    return False
