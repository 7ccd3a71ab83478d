"""A node's API on a process runtime with one or two pods, without TLS on a free port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tarmac.agent.http.api import NodeApi
from tarmac.agent.http.apidependencies import Pods
from tarmac.agent.http.machines.api import ConsoleServices
from tarmac.agent.http.machines.recordings import Recordings
from tarmac.agent.http.machines.sessions import MachineSessions
from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.http.listener import Listener, serve
from tarmac.http.messages import Request
from tarmac.runtimes.interface import Runtime
from tests.agent.http.processes import ProcessRuntime


def pod(name: str = "web", uid: str = "u1", tty: bool = False) -> JsonObject:
    """A running pod of one container."""
    status = {"name": "main", "state": {"running": {}}, "restartCount": 0}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"containers": [{"name": "main", "tty": tty}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [status]},
    }


@dataclass
class StagePods:
    """Implements `host.Pods`; an existing container's id is its name, and its log is in `logs`."""

    logs: Path
    known: list[JsonObject] = field(default_factory=lambda: [pod()])

    def pods(self) -> Sequence[JsonObject]:
        return self.known

    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None:
        for each in self.known:
            metadata = each["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name) and uid in (None, metadata["uid"]):
                return each
        return None

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        return container if any(each["name"] == container for each in pod["spec"]["containers"]) else None

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None:
        path = self.logs / ("0.log" if previous else "1.log")
        return path if path.exists() else None


class StageFigures:
    """Implements `host.Figures` with numbers that a test sets."""

    def __init__(self) -> None:
        self.shown: JsonObject = {"node": {}, "pods": []}
        self.exposed = "agent_up 1\n"

    async def summary(self) -> JsonObject:
        return self.shown

    async def metrics(self) -> str:
        return self.exposed


class Everybody:
    """Authorizes every request."""

    async def admit(self, request: Request) -> str:
        return "somebody"

    async def review(self, request: Request) -> None:
        return None


async def dial(pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
    """Dial this machine, on which the pods of the stage listen."""
    made = socket.socket()
    made.setblocking(False)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(made, (address, port)), timeout)
    except BaseException:
        made.close()
        raise
    return made


def visits_in(folder: Path, told: list[tuple[str, str]] | None = None) -> ConsoleServices:
    """Return console services with recordings in a folder; `told` collects events of sessions."""
    recordings, events = Recordings(folder, SystemClock()), told if told is not None else []
    sessions = MachineSessions(recordings, lambda _pod, reason, message: events.append((reason, message)))
    return ConsoleServices(sessions, recordings, Randomness())


@dataclass
class Stage:
    """The API and the parts behind it."""

    api: NodeApi
    pods: StagePods
    runtime: ProcessRuntime
    figures: StageFigures
    listener: Listener

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.port}"


def api_of(pods: Pods, runtime: Runtime, figures: StageFigures, idle_seconds: float = 3600.0) -> NodeApi:
    """Return an API that authorizes every request."""
    return NodeApi(
        pods=pods,
        runtime=runtime,
        connect=dial,
        node_metrics=figures,
        authorizer=Everybody(),
        clock=SystemClock(),
        consoles=visits_in(Path("none")),
        config=lambda: {"port": 10250},
        idle_seconds=idle_seconds,
    )


@asynccontextmanager
async def stage(logs: Path, idle_seconds: float = 3600.0) -> AsyncGenerator[Stage]:
    """Serve until the block ends."""
    pods, figures = StagePods(logs), StageFigures()
    runtime = ProcessRuntime({"main": "running"})
    await runtime.start()
    api = api_of(pods, runtime.as_runtime(), figures, idle_seconds)
    listener = await serve(api.handle, None)
    try:
        yield Stage(api, pods, runtime, figures, listener)
    finally:
        await listener.stop(0.1)
        await api.close()
        await runtime.stop()
