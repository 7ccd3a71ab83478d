"""`tarmac server --processes 3`: one address, every way to a node through every worker, metrics of all, and kills."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import ssl
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tarmac.apps.server import SEVERAL_NEED_ETCD
from tarmac.apps.workers.seat import meeting_folder
from tarmac.client.targets.untyped import LEASES
from tests.apps.test_server_process import tarmac
from tests.apps.workers.crowd import POD, Connection, Crowd, children, crowd, peer_ports
from tests.soak import SOAK
from tests.support.etcd import EtcdCluster, find_etcd

pytestmark = [pytest.mark.soak(minutes=2), pytest.mark.timeout(180)]
WORKERS = 3
STREAMS = 300 if SOAK else 18


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """The loop that servers and agents run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def store(tmp_path: Path) -> Generator[str]:
    binary = find_etcd()
    if binary is None:
        pytest.skip("NOT RUN: no etcd; python -m tools.fetch_etcd fetches one")
    (tmp_path / "etcd").mkdir()
    cluster = EtcdCluster(binary, tmp_path / "etcd")
    cluster.start()
    yield f"etcd://{cluster.endpoints[0]}"
    cluster.stop()


@pytest.fixture
async def world(tmp_path: Path, store: str) -> AsyncGenerator[Crowd]:
    async with crowd(tmp_path, store, WORKERS) as running:
        yield running


async def answers(world: Crowd, worker: int, target: str, expected: bytes, **spoken: Any) -> None:
    """Assert that a stream through one worker brings these bytes. Workers may need a moment to learn of the tunnel."""
    connection = await world.connection(worker)
    await connection.upgrade(f"{POD}/{target}", spoken.get("protocol", "v5.channel.k8s.io"))
    if "send" in spoken:
        connection.send(0, spoken["send"])
    assert await connection.hears(expected), f"{target} through worker {worker}"
    connection.close()


async def tunnel_is_known(world: Crowd) -> None:
    """Wait until every worker can reach the node."""
    for worker in range(world.count):
        async with asyncio.timeout(40):
            while True:
                connection = await world.connection(worker)
                body = await connection.get("/api/v1/nodes/n1/proxy/metrics")
                connection.close()
                if b"agent_up" in body:
                    break
                await asyncio.sleep(0.1)


async def test_three_processes_are_one_server(world: Crowd) -> None:
    """One start for all of it, since starting takes longest."""
    await every_way_to_a_node_leads_through_every_worker(world)
    await a_scrape_of_anybody_is_the_sum_of_what_clients_counted(world)
    await a_node_brings_only_what_it_was_asked_for(world)
    await files_are_private_and_a_signal_ends_all_in_order(world)


async def test_killed_processes(world: Crowd) -> None:
    await only_streams_through_a_killed_worker_end(world)
    await workers_end_with_their_parent(world)


async def every_way_to_a_node_leads_through_every_worker(world: Crowd) -> None:
    (world.folder / "logs" / "1.log").write_bytes(b"2026-11-17T00:00:00.000000000Z stdout F a line of the log\n")
    echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = echo.sockets[0].getsockname()[1]
    world.runtime.attach_command = ("sh", "-c", "echo attached; sleep 5")
    await tunnel_is_known(world)
    async with echo:
        for worker in range(WORKERS):
            await answers(world, worker, "exec?command=echo&command=from+the+pod&stdout=1", b"from the pod")
            await answers(world, worker, "attach?stdout=1", b"attached")
            forward = {"protocol": "v4.channel.k8s.io", "send": b"ping"}
            await answers(world, worker, f"portforward?ports={port}", b"echo ping", **forward)
            connection = await world.connection(worker)
            assert b"a line of the log" in await connection.get(f"{POD}/log")
            assert b'"kind":"NodeMetricsList"' in await connection.get("/apis/metrics.k8s.io/v1beta1/nodes")
            connection.close()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(b"echo " + data)
        await writer.drain()
    writer.close()


async def a_scrape_of_anybody_is_the_sum_of_what_clients_counted(world: Crowd) -> None:
    target, family = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", "apiserver_request_total"
    connections = [await world.connection(number % WORKERS) for number in range(2 * WORKERS)]

    async def counted(connection: Connection) -> int:
        text = (await connection.get("/metrics")).decode()
        lines = [line for line in text.splitlines() if line.startswith(family) and 'resource="priorityclasses"' in line]
        return sum(
            int(line.rpartition(" ")[2]) for line in lines if 'scope="resource"' in line and 'code="200"' in line
        )

    before = await counted(connections[0])
    for number, connection in enumerate(connections):
        for _ in range(5 + number):
            assert b"system-node-critical" in await connection.get(target)
    wanted = sum(5 + number for number in range(len(connections)))
    assert [await counted(each) - before for each in connections] == [wanted] * len(connections)
    text = (await connections[0].get("/metrics")).decode()
    assert 'tarmac_server_processes{state="ready"} 3' in text
    assert re.search(r"^tarmac_leader 1$", text, re.MULTILINE)
    assert len(re.findall(r'^process_open_fds\{process="\d"\}', text, re.MULTILINE)) == WORKERS
    lines = [line for line in text.splitlines() if line.startswith("apiserver_storage_objects{") and '"nodes"' in line]
    assert lines == ['apiserver_storage_objects{resource="nodes"} 1']
    for connection in connections:
        connection.close()


async def only_streams_through_a_killed_worker_end(world: Crowd) -> None:
    await tunnel_is_known(world)
    port = int(world.server.authority.rpartition(":")[2])
    for round_number in range(2):
        streams = [await _begun(world, number % WORKERS) for number in range(STREAMS)]
        killed, pids = round_number, world.workers()
        through = [each for each in streams if each.worker == killed]
        # Other connections of that worker are streams of the node, and perhaps its tunnel.
        of_node = peer_ports(pids[killed], port) - {each.port for each in streams}
        os.kill(pids[killed], signal.SIGKILL)
        await asyncio.sleep(0.5)
        alive = [each for each in streams if await _echoes(each)]
        ended = [each for each in streams if each not in alive]
        assert all(each in ended for each in through)
        assert len(ended) - len(through) <= len(of_node)
        assert alive
        for each in streams:
            each.close()
        async with asyncio.timeout(60):
            while killed not in world.workers():
                await asyncio.sleep(0.05)
        await tunnel_is_known(world)


async def _begun(world: Crowd, worker: int) -> Connection:
    """Start a command that echoes its input."""
    connection = await world.connection(worker)
    await connection.upgrade(f"{POD}/exec?command=cat&stdin=1&stdout=1")
    assert await _echoes(connection)
    return connection


async def _echoes(connection: Connection) -> bool:
    with suppress(ConnectionError, RuntimeError):
        connection.send(0, b"are you there?")
        return await connection.hears(b"are you there?")
    return False


async def a_node_brings_only_what_it_was_asked_for(world: Crowd) -> None:
    """A stream that a node opens without a request gets 404 or 403, and every worker keeps working."""
    context = ssl.create_default_context(cadata=world.node.ca)
    (world.folder / "n1.pem").write_text(f"{world.node.certificate}\n{world.node.key}")
    context.load_cert_chain(world.folder / "n1.pem")

    def brought(path: str) -> int:
        connection = http.client.HTTPSConnection(world.server.authority, context=context, timeout=20)
        connection.request("GET", path, headers={"Connection": "Upgrade", "Upgrade": "tarmac-stream"})
        code = connection.getresponse().status
        connection.close()
        return code

    for token in ("0-" + "a" * 22, "1-" + "a" * 22, "2-" + "a" * 22, "7-" + "a" * 22, "2-short", "-1-" + "a" * 22):
        assert await asyncio.to_thread(brought, f"/tarmac/v1/nodes/n1/tunnel/{token}") == 404
    for odd in ("1-aaaaaaaaaaaaaaaaaaaaaa%0d%0aX:%20y", "1-aaaaaaaaaaaaaaaaaaaaaa%2f..%2fmetrics"):
        assert await asyncio.to_thread(brought, f"/tarmac/v1/nodes/n1/tunnel/{odd}") == 404
    assert await asyncio.to_thread(brought, "/tarmac/v1/nodes/n2/tunnel/1-" + "a" * 22) == 403
    await tunnel_is_known(world)


async def files_are_private_and_a_signal_ends_all_in_order(world: Crowd) -> None:
    folder = meeting_folder(world.server.data_dir)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert modes == {f"{number}.sock": 0o600 for number in range(WORKERS)}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = {each.name for each in world.server.data_dir.glob("audit*")}
    assert names == {f"audit-{number}.log" for number in range(WORKERS)}
    leases = await world.client.resource(LEASES).list("kube-system")
    assert [each["metadata"]["name"] for each in leases.items] == ["tarmac-controllers"]  # loopback is not announced
    pids = children(world.server.pid)
    assert await asyncio.to_thread(world.server.stop, 40) == 0
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert not folder.exists()


async def workers_end_with_their_parent(world: Crowd) -> None:
    pids = children(world.server.pid)
    assert len(pids) == WORKERS
    world.server.kill()
    async with asyncio.timeout(30):
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            await asyncio.sleep(0.1)


def test_a_store_of_one_process_is_refused(tmp_path: Path) -> None:
    refused = tarmac("server", "--data-dir", str(tmp_path / "data"), "--processes", "2")
    assert (refused.returncode, refused.stderr) == (2, f"error: {SEVERAL_NEED_ETCD}\n")
    for wrong in ("0", "-1", "many", "1000"):
        assert tarmac("server", "--processes", wrong).returncode == 2
