"""The real kubectl's streams, through our server and a tunnel, to processes on a node."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.server.streams.planet import Planet, Said


def ok(said: Said) -> bytes:
    assert said.code == 0, (said.out, said.err)
    return said.out


async def test_exec_tells_output_errors_and_exit_code(world: Planet) -> None:
    said = await world.kubectl("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (said.out, said.code) == (b"out\n", 7)
    assert "err\n" in said.err
    assert "command terminated with exit code 7" in said.err


async def test_exec_passes_piped_input_and_its_end(world: Planet) -> None:
    data = os.urandom(3_000_000)
    assert ok(await world.kubectl("exec", "-i", "web", "--", "cat", stdin=data)) == data
    assert ok(await world.kubectl("exec", "-i", "web", "--", "wc", "-c", stdin=data)).split() == [b"3000000"]


async def test_exec_of_what_is_not_there(world: Planet) -> None:
    said = await world.kubectl("exec", "web", "-c", "none", "--", "true")
    assert said.code == 1
    assert "container none is not valid for pod web" in said.err
    said = await world.kubectl("exec", "web", "--", "/no/such/command")
    assert said.code == 1
    assert "No such file" in said.err


async def test_exec_in_a_terminal(world: Planet) -> None:
    """A user's session: kubectl itself needs a terminal for that."""
    outer, inner = os.openpty()
    command, environment = world.command("exec", "-it", "web", "--", "sh", "-c", "stty size; read x; echo got $x; tty")
    process = await asyncio.create_subprocess_exec(
        *command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
    )
    os.close(inner)
    os.set_blocking(outer, False)
    try:
        os.write(outer, b"hello\n")
        shown = b""
        async with asyncio.timeout(20):
            while process.returncode is None or b"/dev/" not in shown:
                try:
                    shown += os.read(outer, 4096)
                except BlockingIOError:
                    await asyncio.sleep(0.02)
                except OSError:
                    break
            assert await process.wait() == 0, shown
        assert b"got hello" in shown
        assert b"/dev/pts/" in shown
    finally:
        os.close(outer)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_logs_and_following_them(world: Planet) -> None:
    log = world.pods.logs / "1.log"
    log.write_text("2026-11-15T12:00:00.5Z stdout F one\n2026-11-15T12:00:01Z stderr F two\n")
    assert ok(await world.kubectl("logs", "web")) == b"one\ntwo\n"
    assert ok(await world.kubectl("logs", "web", "--tail=1", "--timestamps")) == b"2026-11-15T12:00:01.000000000Z two\n"
    process = await world.start("logs", "-f", "web")
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"one\n"
        assert await process.stdout.readline() == b"two\n"
        with log.open("a") as file:
            file.write("2026-11-15T12:00:02Z stdout F three\n")
        assert await process.stdout.readline() == b"three\n"
        world.runtime.states["main"] = "exited"
        await process.communicate()
    assert process.returncode == 0


async def test_logs_that_there_are_not(world: Planet) -> None:
    said = await world.kubectl("logs", "web", "--previous")
    assert said.code == 1
    assert said.err.strip().endswith('(BadRequest): previous terminated container "main" in pod "web" not found')
    said = await world.kubectl("logs", "web", "--tail=-5", "--since=-1s")
    assert said.code == 1


async def test_cp_both_ways(world: Planet, tmp_path: Path) -> None:
    source, there, back = tmp_path / "source", tmp_path / "there", tmp_path / "back"
    (source / "inner").mkdir(parents=True)
    there.mkdir()
    content = os.urandom(1_500_000)
    (source / "inner" / "data.bin").write_bytes(content)
    (source / "note.txt").write_text("hello")
    ok(await world.kubectl("cp", str(source), f"web:{there}"))
    assert (there / "source" / "inner" / "data.bin").read_bytes() == content
    ok(await world.kubectl("cp", f"web:{there / 'source'}", str(back)))
    assert (back / "inner" / "data.bin").read_bytes() == content
    assert (back / "note.txt").read_text() == "hello"


async def test_attach(world: Planet) -> None:
    world.runtime.attach_command = ("sh", "-c", "read x; echo you said $x")
    said = await world.kubectl("attach", "-i", "web", stdin=b"something\n")
    assert b"you said something" in ok(said)


@pytest.mark.parametrize("websockets", ["true", "false"])
async def test_port_forward(world: Planet, websockets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both protocols of kubectl: SPDY inside a WebSocket, and the raw SPDY of older versions."""
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    process = await world.start("port-forward", "pod/web", f":{port}")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
            local = int(line.split("127.0.0.1:")[1].split(" ")[0])
            for number in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", local)
                writer.write(f"hello {number}\n".encode())
                assert await reader.readline() == f"HELLO {number}\n".encode()
                writer.close()
    finally:
        process.send_signal(signal.SIGINT)
        await process.communicate()
        server.close()


@pytest.mark.parametrize("websockets", ["true", "false"])
async def test_exec_by_either_of_kubectls_protocols(
    world: Planet, websockets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
    said = await world.kubectl("exec", "-i", "web", "--", "tr", "a-z", "A-Z", stdin=b"loud")
    assert ok(said) == b"LOUD"


async def test_without_the_right_nothing_is_opened(world: Planet) -> None:
    for command in (("exec", "web", "--", "true"), ("port-forward", "pod/web", "1"), ("attach", "web")):
        said = await world.kubectl("--as=nobody", *command)
        assert said.code == 1
        assert 'User "nobody" cannot' in said.err
    said = await world.kubectl("--as=nobody", "logs", "web")
    assert 'User "nobody" cannot get resource "pods"' in said.err
