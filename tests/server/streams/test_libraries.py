"""Streams of client libraries, which use older protocols than kubectl."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.stream import portforward, stream

from tests.server.streams.planet import Planet


def core(world: Planet) -> Any:
    return client.CoreV1Api(config.new_client_from_config(str(world.kubeconfig)))


async def test_the_official_client_runs_commands(world: Planet) -> None:
    def run() -> tuple[str, str, int]:
        api = core(world)
        command = ["sh", "-c", "read line; echo out $line; echo err >&2; exit 4"]
        opened = stream(
            api.connect_get_namespaced_pod_exec, "web", "default", command=command,
            stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
        )  # fmt: skip
        opened.write_stdin("hello\n")
        opened.run_forever(timeout=10)
        told = opened.read_stdout(), opened.read_stderr(), opened.returncode
        opened.sock.shutdown()  # its own close leaves the socket to the garbage collector
        return told

    assert await asyncio.to_thread(run) == ("out hello\n", "err\n", 4)


async def test_the_official_client_reads_logs(world: Planet) -> None:
    (world.pods.logs / "1.log").write_text("2026-11-15T12:00:00Z stdout F line\n")
    text = await asyncio.to_thread(lambda: core(world).read_namespaced_pod_log("web", "default"))
    assert text == "line\n"


# The library's thread may be about to select on the socket that is shut down below, and fails then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_the_official_client_forwards_ports(world: Planet) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def run() -> bytes:
        api = core(world)
        forward = portforward(api.connect_get_namespaced_pod_portforward, "web", "default", ports=str(port))
        socket = forward.socket(port)
        socket.setblocking(True)
        socket.settimeout(10)
        socket.sendall(b"hello\n")
        heard = b""
        while not heard.endswith(b"\n"):
            heard += socket.recv(1024)
        socket.close()
        assert forward.error(port) is None
        forward.websocket.shutdown()
        return heard

    assert await asyncio.to_thread(run) == b"HELLO\n"
    server.close()
