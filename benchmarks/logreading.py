"""Reading logs: `tarmac logs` of many streams beside `kubectl logs` of one stream with as many lines.

The pods are simulated, so a relay before the server serves their logs: the last lines of an endless log, as many as
requested. Everything else is the server's. Our program is compiled when it is measured, as in the installed package;
`kubectl` always is.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import yaml
from aiohttp import ClientSession, TCPConnector, web

from benchmarks.processes import compiled
from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess

STREAMS, LINES = 50, 100_000
_SERVER: web.AppKey[ClientSession] = web.AppKey("server", ClientSession)


@dataclass(frozen=True)
class Read:
    """Seconds of each, run by run."""

    tarmac: list[float]
    kubectl: list[float]


def read_logs(planet: TarmacProcess, workload: str, pod: str, folder: Path, repeat: int) -> Read:
    """`workload` has at least `STREAMS` instances, of which `pod` is one."""
    return asyncio.run(_read(planet, workload, pod, folder, repeat))


async def _read(planet: TarmacProcess, workload: str, pod: str, folder: Path, repeat: int) -> Read:
    found = Read([], [])
    async with _relay(planet) as port:
        config = folder / "logs-kubeconfig"
        config.write_text(_kubeconfig(port))
        tarmac = [sys.executable, "-m", "tarmac.apps.main", "logs", workload, "--tail", str(LINES // STREAMS)]
        kubectl = [kubectl_path(), "logs", pod, "--timestamps", "--tail", str(LINES)]
        environment = {**compiled(folder / "compiled"), "KUBECACHEDIR": "/nonexistent"}
        await asyncio.to_thread(_seconds, [*tarmac, "--kubeconfig", str(config)], environment)
        for _ in range(repeat):
            for command, into in ((tarmac, found.tarmac), (kubectl, found.kubectl)):
                into.append(await asyncio.to_thread(_seconds, [*command, "--kubeconfig", str(config)], environment))
    return found


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    begun = perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    seconds = perf_counter() - begun
    lines = done.stdout.count(b"\n")
    assert lines == LINES, f"{lines} lines, not {LINES}"
    return seconds


def _kubeconfig(port: int) -> str:
    names = {"cluster": "relay", "user": "nobody", "namespace": "default"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "relay",
            "clusters": [{"name": "relay", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "relay", "context": names}],
        }
    )


@asynccontextmanager
async def _relay(planet: TarmacProcess) -> AsyncGenerator[int]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/log", _log)
    app.router.add_route("*", "/{rest:.*}", _hand_on)
    context: ssl.SSLContext = planet.client_context()
    async with ClientSession(planet.url, connector=TCPConnector(ssl=context), auto_decompress=False) as session:
        app[_SERVER] = session
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


async def _log(request: web.Request) -> web.StreamResponse:
    count = int(request.query["tailLines"])
    stamp = "2026-11-17T06:00:{:02}.{:09}Z "
    text = "GET /index.html 200 of a client that came for a page and went away again"
    lines = (f"{stamp.format(n * 60 // count, n * 1000)}{text} {n}\n" for n in range(count))
    return web.Response(body="".join(lines).encode(), content_type="text/plain")


async def _hand_on(request: web.Request) -> web.StreamResponse:
    headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
    async with request.app[_SERVER].request(
        request.method, request.rel_url, headers=headers, data=await request.read()
    ) as answer:
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() in ("content-type", "content-encoding")
        }
        return web.Response(status=answer.status, body=await answer.read(), headers=kept)
