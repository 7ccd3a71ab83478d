"""The measurements: each takes a running subject and returns plain numbers; docs/numbers lists the promises."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import ssl
import statistics
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from time import perf_counter, thread_time
from typing import BinaryIO

import aiohttp
import msgspec

from benchmarks.load import Outcome, content_length, drive, encode
from benchmarks.processes import cpu_seconds, resident_bytes
from benchmarks.samplepods import POD_SPEC, POD_STATUS
from benchmarks.subjects import Subject

CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"  # as kubectl get requests it
STRATEGIC = "application/strategic-merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Cost(msgspec.Struct):
    """One measured load: server CPU per request beside the rate."""

    cpu_us: float
    rate: float
    p50_ms: float
    p99_ms: float


def config_map(name: str, size: int = 1000) -> bytes:
    """An object of about `size` bytes as clients send it."""
    return msgspec.json.encode(
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"payload": "x" * (size - 150)}}
    )


async def _measure(subject: Subject, requests: Iterator[bytes], connections: int) -> Cost:
    before = 0.0

    def begin() -> None:
        nonlocal before
        before = cpu_seconds(subject.pids)

    outcome: Outcome = await drive(subject.host, subject.port, subject.context, requests, connections, begin)
    used = cpu_seconds(subject.pids) - before
    assert not outcome.bad, outcome.bad[0]
    return Cost(
        used / outcome.requests * 1e6, outcome.rate, outcome.percentile(0.5) * 1e3, outcome.percentile(0.99) * 1e3
    )


async def make_namespace(subject: Subject, name: str) -> None:
    """A namespace to work in."""
    async with session(subject) as http:
        body = {"metadata": {"name": name}}
        async with http.post(f"{subject.url}/api/v1/namespaces", json=body) as answer:
            assert answer.status in (201, 409), await answer.text()
        account = {
            "metadata": {"name": "default"}
        }  # Pods need it, and not every server has the controller that creates it
        async with http.post(f"{subject.url}/api/v1/namespaces/{name}/serviceaccounts", json=account) as answer:
            assert answer.status in (201, 409), await answer.text()


async def get(subject: Subject, path: str, count: int = 20000, connections: int = 32) -> Cost:
    """GET of one object, repeatedly."""
    request = encode("GET", path, subject.host)
    return await _measure(subject, itertools.repeat(request, count), connections)


async def create(subject: Subject, namespace: str, prefix: str, count: int, connections: int, size: int = 1000) -> Cost:
    """Creates of objects of `size` bytes."""
    path = CONFIG_MAPS.format(namespace)
    requests = [encode("POST", path, subject.host, config_map(f"{prefix}-{number}", size)) for number in range(count)]
    return await _measure(subject, iter(requests), connections)


async def update(subject: Subject, namespace: str, prefix: str, count: int, connections: int) -> Cost:
    """PUTs that change objects of `create` with the same prefix."""
    path = CONFIG_MAPS.format(namespace)
    bodies = ((f"{prefix}-{number}", config_map(f"{prefix}-{number}", 1001)) for number in range(count))
    requests = [encode("PUT", f"{path}/{name}", subject.host, body) for name, body in bodies]
    return await _measure(subject, iter(requests), connections)


async def create_pods(subject: Subject, namespace: str, prefix: str, count: int, connections: int) -> Cost:
    """Creates of Pods that are replicas of one template; no scheduler touches them."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    bodies = (msgspec.json.encode(_pod(f"{prefix}-{number}")) for number in range(count))
    return await _measure(subject, iter([encode("POST", path, subject.host, body) for body in bodies]), connections)


async def report_pods(subject: Subject, namespace: str, prefix: str, count: int, connections: int) -> Cost:
    """Strategic merge patches of the status of the same Pods, as nodes send them."""
    path = f"/api/v1/namespaces/{namespace}/pods/{prefix}-"
    body = msgspec.json.encode({"status": POD_STATUS})
    requests = [encode("PATCH", f"{path}{number}/status", subject.host, body, STRATEGIC) for number in range(count)]
    return await _measure(subject, iter(requests), connections)


async def bind_pods(subject: Subject, namespace: str, prefix: str, count: int, connections: int) -> Cost:
    """Bindings of the same Pods, as a scheduler sends them."""
    path = f"/api/v1/namespaces/{namespace}/pods/{prefix}-"
    target = {"kind": "Node", "name": "node-1"}
    bodies = [msgspec.json.encode({"metadata": {"name": f"{prefix}-{n}"}, "target": target}) for n in range(count)]
    requests = [encode("POST", f"{path}{n}/binding", subject.host, body) for n, body in enumerate(bodies)]
    return await _measure(subject, iter(requests), connections)


def _pod(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}}, "spec": POD_SPEC}


@asynccontextmanager
async def session(subject: Subject) -> AsyncGenerator[aiohttp.ClientSession]:
    """A plain client for everything outside hot loops; responses stay compressed."""
    connector = aiohttp.TCPConnector(ssl=subject.context, limit=0)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, auto_decompress=False, read_bufsize=2**20
    ) as http:
        yield http


async def list_all(
    subject: Subject, namespace: str, times: int, *, gzip: bool = False, accept: str = "application/json"
) -> tuple[float, float, int]:
    """(CPU milliseconds per list, wall milliseconds, bytes) of an unpaged list."""
    headers = {"Accept-Encoding": "gzip" if gzip else "identity", "Accept": accept}
    walls: list[float] = []
    size = 0
    async with session(subject) as http:
        before = cpu_seconds(subject.pids)
        for _ in range(times):
            begin = perf_counter()
            async with http.get(subject.url + CONFIG_MAPS.format(namespace), headers=headers) as answer:
                body = await answer.read()
                size = len(body)
                assert answer.status == 200, body[:500]
            walls.append(perf_counter() - begin)
        used = cpu_seconds(subject.pids) - before
    return used / times * 1e3, statistics.median(walls) * 1e3, size


async def watch_latency(subject: Subject, namespace: str, prefix: str, count: int = 200) -> tuple[float, float]:
    """(p50, p99) in milliseconds from sending a create to holding its event."""
    path = CONFIG_MAPS.format(namespace)
    async with session(subject) as http, http.get(f"{subject.url}{path}?limit=1") as answer:
        version = (await answer.json())["metadata"]["resourceVersion"]
    latencies = sorted(await asyncio.to_thread(_event_latencies, subject, path, version, prefix, count))
    return latencies[len(latencies) // 2] * 1e3, latencies[int(len(latencies) * 0.99)] * 1e3


def _event_latencies(subject: Subject, path: str, version: str, prefix: str, count: int) -> list[float]:
    """Use two bare TLS connections in one blocking thread: a loop on this side would cost as much as the server's."""
    latencies: list[float] = []
    with _dialled(subject) as post, _dialled(subject) as watch, watch.makefile("rb") as events:
        watch.sendall(encode("GET", f"{path}?watch=1&resourceVersion={version}", subject.host))
        while events.readline() != b"\r\n":
            pass
        answers = post.makefile("rb")
        for number in range(count):
            name = f"{prefix}-{number}"
            request, sought = encode("POST", path, subject.host, config_map(name)), f'"{name}"'.encode()
            begin = perf_counter()
            post.sendall(request)
            while sought not in events.readline():
                pass
            latencies.append(perf_counter() - begin)
            _skip_answer(answers)
    return latencies


@contextmanager
def _dialled(subject: Subject) -> Generator[ssl.SSLSocket]:
    with socket.create_connection((subject.host, subject.port), timeout=30) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with subject.context.wrap_socket(plain, server_hostname=subject.host) as secured:
            yield secured


def _skip_answer(answers: BinaryIO) -> None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += answers.readline()
    answers.read(content_length(head))


async def fan_out(
    subject: Subject, namespace: str, prefix: str, watchers: int = 300, events: int = 60
) -> tuple[float, float]:
    """(CPU-µs per delivered event, events per second) with every watcher on its own TLS connection."""
    path = CONFIG_MAPS.format(namespace)
    ready, finished = asyncio.Barrier(watchers + 1), asyncio.Barrier(watchers + 1)

    async def follow(http: aiohttp.ClientSession, version: str) -> None:
        async with http.get(f"{subject.url}{path}?watch=1&resourceVersion={version}") as watch:
            await ready.wait()
            for _ in range(events):
                await watch.content.readline()
            await finished.wait()

    async with session(subject) as http, asyncio.TaskGroup() as group:
        async with http.get(f"{subject.url}{path}?limit=1") as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        for _ in range(watchers):
            group.create_task(follow(http, version))
        await ready.wait()
        before, begin = cpu_seconds(subject.pids), perf_counter()
        for number in range(events):
            async with http.post(subject.url + path, data=config_map(f"{prefix}-{number}")) as answer:
                assert answer.status == 201
        await finished.wait()
        used, seconds = cpu_seconds(subject.pids) - before, perf_counter() - begin
    return used / (watchers * events) * 1e6, watchers * events / seconds


def plain_send_us(sockets: int = 300, times: int = 20) -> float:
    """Measure the kernel's share of a fan-out: CPU-µs for writing an event's bytes to an open loopback socket."""
    taken: list[float] = []
    with ExitStack() as opened, socket.create_server(("127.0.0.1", 0), backlog=sockets) as server:
        pairs: list[tuple[socket.socket, socket.socket]] = []
        for _ in range(sockets):
            near = opened.enter_context(socket.create_connection(server.getsockname()))
            pairs.append((near, opened.enter_context(server.accept()[0])))
        for _ in range(times):
            begin = thread_time()
            for near, _far in pairs:
                near.send(b"x" * 1400)
            taken.append((thread_time() - begin) / sockets)
            for _near, far in pairs:
                far.recv(4096)
    return statistics.median(taken) * 1e6


async def growth_per_object(subject: Subject, namespace: str, count: int) -> float:
    """Bytes of resident memory per created object of 1.25 KB."""
    before = resident_bytes(subject.pids)
    await create(subject, namespace, "grow", count, 32, size=1250)
    return (resident_bytes(subject.pids) - before) / count


def fdatasync_ms(times: int = 200) -> float:
    """The machine's own yardstick: the median of a 2 KB append and fdatasync."""
    taken: list[float] = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(times):
            file.write(b"x" * 2300)
            file.flush()
            begin = perf_counter()
            os.fdatasync(file.fileno())
            taken.append(perf_counter() - begin)
    return statistics.median(taken) * 1e3
