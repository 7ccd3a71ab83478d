"""A machine that joins trusts only the hash in its token: a man in the middle sees no secret."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tarmac.api.nodetokens import AUTHORITIES_PATH, NodeToken
from tarmac.apps.host.checks import server_obstacles
from tarmac.apps.host.hostlayout import Machine, SetupFailed, setting_up
from tarmac.apps.host.serverdiscovery import FoundServer, WrongAuthority, discover, url_of
from tarmac.apps.main import main
from tarmac.base.clock import SystemClock
from tarmac.http.authorities import key_hash
from tarmac.server.security.certificates.pki import Pki
from tests.security.wire import serving

CLOCK = SystemClock()


def token(pki: Pki) -> NodeToken:
    return NodeToken("abcdef", "0123456789abcdef", key_hash(pki.ca_file.read_bytes()))


class Middle:
    """A man in the middle with an authority of its own, who records all requests and presents any authority."""

    def __init__(self, folder: Path, shows: bytes) -> None:
        self.pki = Pki(folder, CLOCK)
        self.shows = shows or self.pki.ca_file.read_bytes()
        self.heard = b""
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.heard += request
        body = self.shows if AUTHORITIES_PATH.encode() in request else b'{"gitVersion":"v1"}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def in_the_middle(folder: Path, shows: bytes = b"") -> AsyncGenerator[Middle]:
    middle = Middle(folder, shows)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with middle.pki.server_files(["127.0.0.1"]) as files:
        context.load_cert_chain(*files)
    server = await asyncio.start_server(middle.answer, "127.0.0.1", 0, ssl=context)
    middle.port = server.sockets[0].getsockname()[1]
    try:
        yield middle
    finally:
        server.close()
        await server.wait_closed()


async def test_the_tokens_server_is_found(tmp_path: Path) -> None:
    async with serving(tmp_path) as wire:
        found = await discover(["127.0.0.1:1", f"127.0.0.1:{wire.port}"], token(wire.pki), CLOCK)
        assert (found.url, found.ca) == (f"https://127.0.0.1:{wire.port}", wire.pki.ca_file.read_text())
        assert abs(found.ahead) < 5
        assert found.version
        assert list(server_obstacles(found)) == []


async def test_a_listener_with_another_authority_sees_no_secret(tmp_path: Path) -> None:
    wanted = token(Pki(tmp_path / "ours", CLOCK))
    async with in_the_middle(tmp_path / "theirs") as middle:
        with pytest.raises(WrongAuthority) as caught:
            await discover([f"127.0.0.1:{middle.port}"], wanted, CLOCK)
        theirs = key_hash(middle.pki.ca_file.read_bytes())
        said = f"the server at https://127.0.0.1:{middle.port} has CA sha256:{theirs}, the token names "
        assert str(caught.value) == f"{said}sha256:{wanted.ca_hash}: nothing was sent to it"
        assert middle.heard.startswith(f"GET {AUTHORITIES_PATH} ".encode())
        assert wanted.secret.encode() not in middle.heard
        assert wanted.id.encode() not in middle.heard


async def test_showing_the_right_authority_does_not_help_who_has_not_its_key(tmp_path: Path) -> None:
    ours = Pki(tmp_path / "ours", CLOCK)
    wanted = token(ours)
    async with in_the_middle(tmp_path / "theirs", ours.ca_file.read_bytes()) as middle:
        with pytest.raises(SetupFailed, match="does not answer"):
            await discover([f"127.0.0.1:{middle.port}"], wanted, CLOCK)
        assert middle.heard.count(b"GET ") == 1, "no verified connection was opened"
        assert wanted.secret.encode() not in middle.heard


@pytest.mark.parametrize("shows", [b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
async def test_a_server_with_malformed_certificates_is_rejected(tmp_path: Path, shows: bytes) -> None:
    wanted = token(Pki(tmp_path / "ours", CLOCK))
    async with in_the_middle(tmp_path / "theirs", shows) as middle:
        with pytest.raises(WrongAuthority, match="shows no authority"):
            await discover([f"127.0.0.1:{middle.port}"], wanted, CLOCK)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("api.example.org", "https://api.example.org:6443"),
        ("192.0.2.1:7443", "https://192.0.2.1:7443"),
        ("fd00::1", "https://[fd00::1]:6443"),
        ("[fd00::1]:7443", "https://[fd00::1]:7443"),
        ("https://api.example.org:6443/", "https://api.example.org:6443"),
    ],
)
def test_addresses_are_read_as_people_write_them(address: str, url: str) -> None:
    assert url_of(address) == url


def test_clocks_and_versions_that_are_too_far_apart_are_obstacles() -> None:
    checks = [each.check for each in server_obstacles(FoundServer("u", "ca", -31.0, "99.0.0"))]
    assert checks == ["clock", "version"]


def test_one_command_at_a_time_sets_a_machine_up(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "config.yaml", tmp_path / "data", tmp_path / "run")
    refused = pytest.raises(SetupFailed, match=r"another tarmac \(process \d+\) sets this machine up")
    with setting_up(machine), refused, setting_up(machine):
        pass
    with setting_up(machine):
        pass


@pytest.mark.root
@pytest.mark.parametrize("command", [["init"], ["leave"], ["image", "list"]])
def test_commands_for_hosts_name_root_as_their_first_obstacle(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Machine.__init__, "__defaults__", (tmp_path / "config.yaml", tmp_path / "data", tmp_path / "run")
    )
    monkeypatch.setenv("PATH", str(tmp_path))  # no containerd either: less important than root
    os.seteuid(65534)  # an unprivileged user
    try:
        code = main([*command, *(["--data-dir", str(tmp_path / "data")] if "image" in command else [])])
    finally:
        os.seteuid(0)
    assert code == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("run this command as root")
