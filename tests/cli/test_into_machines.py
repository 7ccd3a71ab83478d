"""`tarmac console`, `vnc` and `machine`, as users run them: a process of its own, through server and tunnel."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import re
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.agent.http.machines.casts import CastFacts
from tarmac.agent.http.machines.recordings import Recordings
from tarmac.api.status import ApiError
from tarmac.apps.commands import parser
from tarmac.apps.commands import run as main
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.cli.machines.browser import BrowserPage
from tarmac.cli.machines.console import open_console
from tarmac.cli.machines.instanceendpoint import InstanceEndpoint, find_instance
from tarmac.cli.machines.rfb import RfbFault
from tarmac.cli.machines.screenshot import Screenshot
from tarmac.cli.machines.vnc import take_picture
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.targets.untyped import PODS
from tarmac.client.transport import ClientRequest as HttpRequest
from tarmac.client.websockets import open_websocket
from tarmac.http.listener import serve
from tarmac.http.messages import Request, Response
from tarmac.runtimes.fake import FakeProgram
from tarmac.runtimes.interface import ExecResult
from tests.cli.vncviewer import shown_password
from tests.server.streams.machineplanet import BASE, INSTANCES, MachinePlanet, machine_planet
from tests.server.streams.screens import TwoColours


@pytest.fixture
async def planet(tmp_path: Path) -> AsyncIterator[MachinePlanet]:
    async with machine_planet(tmp_path) as made:
        yield made


def command(planet: MachinePlanet, *arguments: str) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "KUBECONFIG": str(planet.kubeconfig), "HOME": str(planet.folder)}
    return [sys.executable, "-m", "tarmac.apps.main", *arguments], environment


async def call(planet: MachinePlanet, *arguments: str) -> tuple[int, str, str]:
    """Run in this process, on a loop of its own: starting Python for each command takes most of a test's time."""
    out, err = io.StringIO(), io.StringIO()

    def work() -> int:
        try:
            return main(parser().parse_args([*arguments, "--kubeconfig", str(planet.kubeconfig)]))
        except SystemExit as wrong:
            return int(wrong.code or 0)

    with redirect_stdout(out), redirect_stderr(err):
        code = await asyncio.to_thread(work)
    return code, out.getvalue(), err.getvalue()


async def run(planet: MachinePlanet, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run as a process."""
    words, environment = command(planet, *arguments)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(30):
        out, err = await process.communicate(stdin)
    return process.returncode or 0, out.decode(), err.decode()


async def until(true: Any) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


class Terminal:
    """A terminal of 80 columns."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        self.seen = b""

    def shows(self, what: bytes) -> bool:
        with suppress(OSError):
            self.seen += os.read(self.ours, 65536)
        return what in self.seen

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    async def start(self, planet: MachinePlanet, *arguments: str) -> asyncio.subprocess.Process:
        words, environment = command(planet, *arguments)
        ends: dict[str, Any] = {"stdin": self.theirs, "stdout": self.theirs, "stderr": self.theirs}
        return await asyncio.create_subprocess_exec(*words, env=environment, start_new_session=True, **ends)


async def test_a_console_is_typed_at_survives_a_lost_connection_and_is_left(planet: MachinePlanet) -> None:
    terminal = Terminal()
    process = await terminal.start(planet, "console", "vm")
    try:
        await until(lambda: terminal.shows(b"you have the keyboard"))
        terminal.type(b"uname\r")
        await until(lambda: terminal.shows(b"uname\r\n"))
        for transport in list(planet.running.listener.upgraded):  # all connections break, the tunnel too
            transport.abort()
        planet.guest.write(b"said meanwhile\r\n")
        await until(lambda: terminal.shows(b"connected again"))
        await until(lambda: terminal.shows(b"said meanwhile\r\n"))
        assert terminal.seen.count(b"said meanwhile") == terminal.seen.count(b"uname\r\n") == 1
        terminal.type(b"\x1d")
        async with asyncio.timeout(10):
            assert await process.wait() == 0
        terminal.shows(b"")
        assert terminal.seen.count(b"the connection was lost") == 1, "leaving is not a lost connection"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(terminal.ours)
        os.close(terminal.theirs)


async def test_a_pipe_is_typed_and_what_comes_is_shown(planet: MachinePlanet) -> None:
    planet.guest.write(b"login: ")

    async def end() -> None:
        await until(lambda: planet.guest.typed == b"root\r")
        planet.machine.gone()

    ending = asyncio.ensure_future(end())
    code, out, err = await run(planet, "console", "instance/vm", stdin=b"root\r")
    await ending
    assert out == "login: root\r\n"
    assert code == 1
    assert "the machine is gone" in err
    assert "\x1b" not in err


async def test_recorded_sessions_are_listed_and_replayed(planet: MachinePlanet) -> None:
    code, out, _ = await call(planet, "console", "vm", "--list")
    assert (code, out) == (0, "No recordings of vm on the node where it is.\n")
    forged = CastFacts("ev\x1b[2Je", "f" * 16, kind="console")
    Recordings(planet.folder / "recordings", SystemClock()).begin("default", "vm", forged).close()
    session = await planet.console(config=planet.config("ann"))
    planet.guest.write(b"hello from the guest\r\n")
    await session.until(lambda each: b"guest" in each.output)
    session.socket.close()
    await until(lambda: len(planet.told) == 2)
    code, out, _ = await call(planet, "console", "vm", "--list")
    assert code == 0
    assert "\x1b" not in out
    assert re.search(r"SESSION +USER +KIND +BEGAN +ENDED +BYTES\n", out)
    assert re.search("f{16} +ev\ufffd\\[2Je +console ", out)
    found = re.search(r"^[0-9a-f]{16}(?= +ann)", out, re.MULTILINE)
    assert found is not None
    code, out, err = await call(planet, "console", "vm", "--replay", found[0], "--speed", "0")
    assert (code, out.replace("\r", "")) == (0, "hello from the guest\n")
    assert "[tarmac: end]" in err
    code, _, err = await call(planet, "console", "vm", "--replay", "0" * 16)
    assert code == 1
    assert "error: there is no recording of a session" in err


async def test_buttons_are_pressed(planet: MachinePlanet) -> None:
    assert (await call(planet, "machine", "pause", "vm"))[:2] == (0, "instance/vm paused\n")
    code, _, err = await call(planet, "machine", "reboot", "vm")
    assert code == 1
    assert "error: the machine is paused: resume or reset it\n" in err
    code, out, _ = await call(planet, "machine", "resume", "vm", "-o", "json")
    assert (code, '"action": "Resume"' in out) == (0, True)
    code, _, err = await call(planet, "machine", "reset", "box")
    assert code == 1
    assert "is not a virtual machine" in err
    assert (await call(planet, "machine", "reset", "nobody"))[0] == 1
    assert (await call(planet, "machine", "eject", "vm"))[0] == 2
    assert planet.machine.pressed == ["Pause", "Resume"]


async def test_a_machine_is_stopped_and_started_by_whoever_may_press_buttons(
    planet: MachinePlanet, tmp_path: Path
) -> None:
    instances = planet.client.resource(INSTANCES)

    async def runs() -> bool:
        found = await instances.get("vm", "default")
        return found["spec"]["runtime"]["virtualMachine"].get("running", True)

    async def press(client: Client, action: str) -> int:
        body, headers = json.dumps({"action": action}).encode(), {"content-type": "application/json"}
        return (
            await client.transport.request(HttpRequest("POST", f"{BASE}/vm/power", headers=headers, body=body))
        ).status

    assert (await call(planet, "machine", "stop", "vm"))[:2] == (0, "instance/vm stopping\n")
    assert not await runs()
    await planet.client.resource(PODS).delete("vm", "default", grace=0)  # as its controller does
    for words in (("machine", "reboot", "vm"), ("vnc", "vm", "--screenshot", str(tmp_path / "p.png"))):
        code, _, err = await call(planet, *words)
        assert code == 1
        assert 'instance "vm" is stopped: start it with `tarmac machine start`' in err, words
    code, out, _ = await call(planet, "machine", "start", "vm", "-o", "json")
    assert (code, json.loads(out)["action"], await runs()) == (0, "Start", True)
    code, _, err = await call(planet, "machine", "stop", "box")
    assert (code, "is not a virtual machine" in err) == (1, True)
    for role, status in (("view", 403), ("edit", 200)):
        await planet.grant(role, role)
        assert await press(planet.client_of(role, "people"), "Stop") == status
    assert planet.machine.pressed == [], "the node is not involved"


async def test_a_picture_of_the_screen(planet: MachinePlanet, tmp_path: Path) -> None:
    screen = TwoColours()
    async with await screen.start(tmp_path / "vnc.sock"):
        planet.machine.display_path = str(tmp_path / "vnc.sock")
        code, out, err = await call(planet, "vnc", "vm", "--screenshot", str(tmp_path / "out.png"))
    assert (code, out) == (0, f"{tmp_path / 'out.png'}: 40x10\n"), err
    width, height, rows = read_png((tmp_path / "out.png").read_bytes())
    assert (width, height) == (40, 10)
    assert rows == [b"\xff\0\0" * 20 + b"\0\0\xff" * 20] * 10


async def test_a_viewer_at_a_port_of_this_computer(planet: MachinePlanet, tmp_path: Path) -> None:
    screen = TwoColours()
    async with await screen.start(tmp_path / "vnc.sock"):
        planet.machine.display_path = str(tmp_path / "vnc.sock")
        words, environment = command(planet, "vnc", "vm", "--view")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=pipe, stderr=pipe)
        try:
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            match = re.fullmatch(r"vnc://127\.0\.0\.1:([0-9]+)\n", line)
            assert match is not None
            password = (await process.stdout.readline()).decode().removeprefix("password: ").strip()
            reader, writer = await asyncio.open_connection("127.0.0.1", int(match[1]))
            key = struct.pack(">BBxxI", 4, 1, 0x61)
            async with asyncio.timeout(10):
                assert await shown_password(reader, writer, password) == bytes(4)
                # The handshake is done: a screenshot begins after it.
                picture = Screenshot()
                answer = picture.receive(b"RFB 003.008\n\x01\x01" + bytes(4))
                writer.write(answer[-1:])
                while not picture.done:
                    answer = picture.receive(await reader.read(65536))
                    writer.write(answer + (key if answer[:1] == b"\0" else b""))
            writer.close()
        finally:
            process.kill()
            await process.wait()
    assert b"\x03" in screen.heard
    assert key not in screen.heard  # it only watches


def read_png(data: bytes) -> tuple[int, int, list[bytes]]:
    """Decode with another implementation of PNG."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, dict[bytes, bytes]()
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        chunks[kind] = data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + chunks[kind])
        place += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    raw = zlib.decompress(chunks[b"IDAT"])
    return width, height, [raw[row * (width * 3 + 1) + 1 : (row + 1) * (width * 3 + 1)] for row in range(height)]


@given(st.binary(max_size=200), st.booleans())
def test_no_server_does_anything_but_send_a_picture_or_be_refused(data: bytes, opened: bool) -> None:
    screenshot = Screenshot()
    opening = b"RFB 003.008\n\x01\x01" + bytes(4) + struct.pack(">HH", 4, 4) + bytes(16) + bytes(4)
    try:
        screenshot.receive((opening if opened else b"") + data)
    except RfbFault:
        return


@pytest.mark.parametrize("size", [(65535, 65535), (0, 10)])
def test_no_screen_is_larger_than_screens_are(size: tuple[int, int]) -> None:
    opening = b"RFB 003.008\n\x01\x01" + bytes(4) + struct.pack(">HH", *size) + bytes(16) + bytes(4)
    with pytest.raises(RfbFault, match="a screen of"):
        Screenshot().receive(opening)


async def test_the_console_of_a_sandbox_is_a_shell(planet: MachinePlanet) -> None:
    planet.runtime.programs["main"] = FakeProgram(exec=lambda words: ExecResult(" ".join(words).encode(), b"", 3))
    box = planet.pods.ids["box"]
    planet.runtime._containers[box].program = planet.runtime.programs["main"]  # pyright: ignore[reportPrivateUsage]
    code, out, err = await run(planet, "console", "box")
    assert out == "sh -c command -v bash >/dev/null && exec bash || exec sh"
    assert code == 1
    assert "non-zero exit code: 3" in err


async def test_where_the_server_has_no_such_subresources_attach_and_the_node_are_asked(
    planet: MachinePlanet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = InstanceEndpoint.path
    monkeypatch.setattr(InstanceEndpoint, "path", lambda self, name, **query: real(self, f"no-{name}", **query))  # pyright: ignore
    client = Client(HttpTransport(planet.config("ann")))
    place = await find_instance(client, planet.config("ann"), "default", "vm")
    socket = await open_console(place, Randomness(), "", keyboard=True, takeover=False)
    assert b"you have the keyboard" in (await socket.receive() or b"")
    socket.close()
    screen = TwoColours()
    async with await screen.start(tmp_path / "vnc.sock"):
        planet.machine.display_path = str(tmp_path / "vnc.sock")
        picture = await take_picture(client, place)
    assert (picture.width, picture.height) == (40, 10)
    assert [told.partition(" is")[0] for reason, told in planet.told if reason == "ConsoleOpened"] == ["ann", "ann"]
    await client.close()


async def test_a_browser_gets_the_page_and_one_stream_and_nobody_else_anything(
    planet: MachinePlanet, tmp_path: Path
) -> None:
    files, console = tmp_path / "novnc", Console(sys.stdout, sys.stderr)
    files.mkdir()
    (files / "vnc_lite.html").write_text("<html>")
    (tmp_path / "secret").write_text("not yours")
    (files / "link").symlink_to(tmp_path / "secret")
    config = planet.config("ann")
    client = Client(HttpTransport(config))
    page = BrowserPage(client, InstanceEndpoint(config, "default", "vm"), True, console, files)
    listener = await serve(page.answer, None)
    home = re.sub("/vnc_lite.*", "", page.url(listener.port))

    async def get(path: str, host: str = "") -> int:
        secret = home.rpartition("/")[2]
        request = Request("GET", f"/{secret}/{path}", headers={"host": host or f"127.0.0.1:{listener.port}"})
        answer = await page.answer(request)
        assert isinstance(answer, Response)
        return answer.status

    assert await get("vnc_lite.html") == 200
    assert await get("vnc_lite.html", host="evil.example") == 403
    assert [await get(path) for path in ("../secret", "link", "", "none")] == [404] * 4
    wrong = await page.answer(Request("GET", "/guess/vnc_lite.html", headers={"host": f"127.0.0.1:{listener.port}"}))
    assert isinstance(wrong, Response)
    assert wrong.status == 404
    screen = TwoColours()
    async with await screen.start(tmp_path / "vnc.sock"):
        planet.machine.display_path = str(tmp_path / "vnc.sock")
        target = f"/{home.rpartition('/')[2]}/stream"
        local = HttpConfig(f"http://127.0.0.1:{listener.port}")
        socket, picture = await open_websocket(local, target, ["binary"], Randomness()), Screenshot()
        with pytest.raises(ApiError, match="somebody looks already"):
            await open_websocket(local, target, ["binary"], Randomness())
        async with asyncio.timeout(10):
            while not picture.done:
                await socket.send(picture.receive(await socket.receive() or b""))
        socket.close()
        await until(lambda: not page._taken)  # pyright: ignore[reportPrivateUsage]
    await page.close()
    await listener.stop(0.1)
    await client.close()
