"""Unauthenticated connections hold little, and evict only each other."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tarmac.http.limits import ListenerLimits
from tarmac.http.messages import Request, Response
from tarmac.http.unauthenticated import UnauthenticatedConnections
from tarmac.server.security.certificates.pki import Pki
from tests.http.conftest import Server, read_answer

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
TOKEN = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nContent-Length: 200000\r\n\r\n"
LARGE = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"


def has_token(request: Request) -> bool:
    return request.headers.get("authorization") == "Bearer good"


def ok(request: Request) -> Response:
    request.authenticated = has_token(request)
    return Response(200, b"{}")


@pytest.fixture
def certificate(pki: Pki, tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "admin.crt", tmp_path / "admin.key"
    pair = pki.admin()
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    return files


async def closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the peer closes the connection; return true if it did."""
    try:
        return await asyncio.wait_for(reader.read(), 5) == b""
    except ConnectionError:
        return True


async def test_beyond_the_limit_the_oldest_one_goes_and_the_newest_is_served(server: Server) -> None:
    await server.start(ok, ListenerLimits(unauthenticated=4))
    silent = [await server.connect() for _ in range(4)]
    reader, writer = await server.connect()
    writer.write(GET)
    assert (await read_answer(reader))[0] == 200
    assert await closed(silent[0][0])
    silent[1][1].write(GET)
    assert (await read_answer(silent[1][0]))[0] == 200


async def test_handshakes_that_never_end_count_too(server: Server) -> None:
    if server.mode == "plain":
        pytest.skip("there is no handshake in the clear")
    listener = await server.start(ok, ListenerLimits(unauthenticated=4))
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    while len(listener.unauthenticated) < 4:
        await asyncio.sleep(0.001)
    reader, writer = await server.connect()
    writer.write(GET)
    assert (await read_answer(reader))[0] == 200
    assert len(listener.unauthenticated) <= 4
    for each in silent:
        each.close()


async def test_those_who_have_shown_who_they_are_stay(server: Server, certificate: tuple[Path, Path]) -> None:
    await server.start(ok, ListenerLimits(unauthenticated=2))
    known = await server.connect()
    known[1].write(GET[:-2] + b"Authorization: Bearer good\r\n\r\n")
    await read_answer(known[0])
    certified = await server.connect(certificate=certificate) if server.mode != "plain" else known
    for _ in range(10):
        await server.connect()
    for reader, writer in (known, certified):
        writer.write(GET)
        assert (await read_answer(reader))[0] == 200


async def test_half_sent_bodies_of_strangers_keep_nobody_else_from_writing(
    server: Server, certificate: tuple[Path, Path]
) -> None:
    limits = ListenerLimits(unauthenticated_bodies=100_000, unfinished_bodies=1_000_000, small_body=1000)
    listener = await server.start(ok, limits, authenticates=has_token)
    _, attacker = await server.connect()
    attacker.write(LARGE + bytes(90_000))
    while listener.shares.unauthenticated.held < 90_000:
        await asyncio.sleep(0.001)
    reader, writer = await server.connect()
    writer.write(LARGE + bytes(150_000))
    assert (await read_answer(reader))[0] == 429
    reader, writer = await server.connect()
    writer.write(TOKEN + bytes(200_000))
    assert (await read_answer(reader))[0] == 200
    if server.mode != "plain":
        reader, writer = await server.connect(certificate=certificate)
        writer.write(LARGE + bytes(200_000))
        assert (await read_answer(reader))[0] == 200
    assert listener.shares.authenticated.held == 0


def test_the_most_crowded_address_makes_room() -> None:
    unauthenticated: UnauthenticatedConnections[str] = UnauthenticatedConnections(4)
    for name, address in [("a1", "192.0.2.1"), ("b1", "192.0.2.2"), ("a2", "192.0.2.1"), ("c1", "2001:db8::1")]:
        assert unauthenticated.add(name, address) is None
    assert unauthenticated.add("c2", "2001:db8::ffff") == "a1"
    assert unauthenticated.add("c3", "2001:db8::2") == "c1"
    assert unauthenticated.add("d1", "::ffff:192.0.2.2") in ("b1", "c2")
    assert len(unauthenticated) == 4
