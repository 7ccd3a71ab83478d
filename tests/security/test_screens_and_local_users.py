"""`tarmac vnc` on a computer with other users: neither its port nor its browser's command line gives them access."""

from __future__ import annotations

import asyncio
import io
import re
import stat
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.cli.machines import browser, viewers
from tarmac.cli.machines.instanceendpoint import InstanceEndpoint
from tarmac.cli.machines.rfb import response
from tarmac.cli.machines.viewers import Viewers
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.websockets import WebSocket
from tests.cli.vncviewer import challenged, shown_password

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """A port with the display of a machine behind it that counts sessions."""

    def __init__(self) -> None:
        self.sessions = 0
        self.err = io.StringIO()
        self.viewers = Viewers(self._open, Console(io.StringIO(), self.err), SystemClock(), Randomness())
        self.number = 0

    async def _open(self) -> WebSocket:
        self.sessions += 1
        raise OSError("no machine here")

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.number)


@pytest.fixture(autouse=True)
def quick_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "GUESS_INTERVAL", 0.01)


@asynccontextmanager
async def opened() -> AsyncGenerator[Port]:
    port = Port()
    server = await asyncio.start_server(port.viewers.serve, "127.0.0.1", 0)
    port.number = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(20), server:
        yield port


@pytest.mark.parametrize("version", ["003.003", "003.007", "003.008", "003.889"])
async def test_a_viewer_of_any_version_enters_with_the_password(version: str) -> None:
    async with opened() as port:
        reader, writer = await port.connect()
        assert await shown_password(reader, writer, port.viewers.password, version) == bytes(4)
        assert await reader.read() == b""
        writer.close()
    assert port.sessions == 1


@pytest.mark.parametrize("version", ["003.003", "003.007", "003.008"])
@pytest.mark.parametrize("password", ["", "wrongone"])
async def test_a_viewer_with_a_wrong_password_gets_no_session(version: str, password: str) -> None:
    async with opened() as port:
        reader, writer = await port.connect()
        assert await shown_password(reader, writer, password, version) == b"\0\0\0\x01"
        assert (b"wrong password" in await reader.read()) == (version == "003.008")
        writer.close()
    assert port.sessions == 0
    assert port.err.getvalue() == "warning: a viewer was refused: wrong password\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"RFB 003.008\n\x01\x01",  # no security
        b"RFB 003.008\n\x10\x01",  # another kind of security
        b"RFB 003.00x\n\x02" + bytes(16),
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",  # a page in a browser
        b"\xff" * 4096,
    ],
)
async def test_a_viewer_that_shows_no_password_gets_no_session(sent: bytes) -> None:
    async with opened() as port:
        reader, writer = await port.connect()
        writer.write(sent)
        received = await reader.read()
        writer.close()
    assert port.sessions == 0
    assert re.fullmatch(rb"RFB 003\.008\n(\x01\x02)?", received), "neither a screen nor a result"


async def test_a_response_that_was_seen_does_not_open_another_connection() -> None:
    async with opened() as port:
        reader, writer = await port.connect()
        challenge = await challenged(reader, writer)
        seen = response(port.viewers.password, challenge)
        writer.write(seen)
        assert await reader.readexactly(4) == bytes(4)
        writer.close()
        reader, writer = await port.connect()
        assert await challenged(reader, writer) != challenge
        writer.write(seen)
        assert await reader.readexactly(4) == b"\0\0\0\x01"
        writer.close()
    assert port.sessions == 1


async def test_connections_without_a_password_are_bounded() -> None:
    async with opened() as port:
        strangers = [await port.connect() for _ in range(viewers.MAX_STRANGERS)]
        for reader, _ in strangers:
            await reader.readexactly(12)
        late, writer = await port.connect()
        assert await late.read() == b""
        writer.close()
        for _, each in strangers:
            each.close()


async def test_wrong_passwords_are_answered_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as port:
        at_once = most = 0

        async def sleep(seconds: float) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1

        monkeypatch.setattr(port.viewers._clock, "sleep", sleep)  # pyright: ignore[reportPrivateUsage]
        guesses = [await port.connect() for _ in range(8)]
        results = await asyncio.gather(*(shown_password(*each, "guess") for each in guesses))
        for _, writer in guesses:
            writer.close()
    assert (set(results), most) == ({b"\0\0\0\x01"}, 1)


def test_the_password_is_used_as_other_programs_use_it() -> None:
    # Computed by noVNC's own DES.
    assert response("s3cret12", bytes(range(16))).hex() == "2dbb9e7a1501bfa3c4005539adc58be6"
    assert response("abc", bytes(range(16))).hex() == "9c22b4f2088c3465a1562c4b9d6edb04"


async def test_a_browser_is_started_with_a_private_file_instead_of_the_secret_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vnc_lite.html").write_text("<html>")
    monkeypatch.setattr(browser, "NOVNC", tmp_path)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(webbrowser, "open", lambda url: loop.call_soon_threadsafe(started.set_result, url))
    config, out = HttpConfig("https://127.0.0.1:1"), io.StringIO()
    client = Client(HttpTransport(config))
    console = Console(out, io.StringIO())
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        serving = group.create_task(
            browser.serve_browser(client, InstanceEndpoint(config, "default", "vm"), 0, True, console)
        )
        command = await started
        address = out.getvalue().strip()
        secret = address.split("/")[3]
        assert command.startswith("file:///")
        assert secret not in command
        file = Path(command.removeprefix("file://"))
        assert f"url={address.replace('&', '&amp;')}" in file.read_text()
        assert [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)] == [0o600, 0o700]
        serving.cancel()
    assert not file.parent.exists(), "the file is removed when the command ends"
    await client.close()
