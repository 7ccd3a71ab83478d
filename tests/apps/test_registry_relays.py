"""A city reaches registries of this machine by the names in its hosts.toml files, and follows changes of the files."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarmac.apps.cities.layout import CityLayout
from tarmac.apps.cities.loopbackproxies import relays
from tarmac.base.clock import ManualClock
from tarmac.datapath.hosts import CityHost
from tarmac.datapath.linux import namespaces

pytestmark = [pytest.mark.root]


@pytest.fixture
async def city(tmp_path: Path) -> AsyncIterator[CityLayout]:
    """A city that is an empty network namespace."""
    place = tmp_path / "netns"
    await asyncio.to_thread(namespaces.create, place)
    try:
        up = ["nsenter", f"--net={place}", "ip", "link", "set", "lo", "up"]
        await asyncio.to_thread(subprocess.run, up, check=True)
        host = CityHost("dfw", place, "none", ("198.18.0.2", "fd00::2"))
        yield CityLayout("DFW", host, tmp_path, tmp_path, "/none", "/none")
    finally:
        await asyncio.to_thread(namespaces.remove, place)


@pytest.fixture
async def registry() -> AsyncIterator[int]:
    """A server on this machine's loopback that sends a greeting to every client."""

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


def heard(city: CityLayout, port: int) -> bytes:
    with namespaces.inside(city.host.namespace):
        made = socket.socket()
    with made:
        made.settimeout(10)
        try:
            made.connect(("127.0.0.1", port))
            return made.recv(100)
        except ConnectionError:
            return b""


def name(certs: Path, registry: str, port: int) -> None:
    (certs / registry).mkdir(parents=True)
    (certs / registry / "hosts.toml").write_text(f'[host."http://127.0.0.1:{port}"]\n')


async def becomes(wanted: bytes, city: CityLayout, port: int, clock: ManualClock) -> None:
    """Wait for some passes: sockets are created in threads, which no clock controls."""
    for _ in range(200):
        clock.advance(2.0)
        if await asyncio.to_thread(heard, city, port) == wanted:
            return
    raise AssertionError(f"{port} never said {wanted!r}")


async def test_files_come_change_and_go_while_it_runs(city: CityLayout, registry: int, tmp_path: Path) -> None:
    certs, clock = tmp_path / "certs.d", ManualClock()
    async with relays(city, certs, clock):
        assert await asyncio.to_thread(heard, city, registry) == b""
        name(certs, "new.example", registry)
        await becomes(b"hello", city, registry, clock)
        (certs / "new.example" / "hosts.toml").unlink()
        await becomes(b"", city, registry, clock)


async def test_a_port_that_is_taken_in_the_city_keeps_no_other_registry_away(
    city: CityLayout, registry: int, tmp_path: Path
) -> None:
    certs, clock = tmp_path / "certs.d", ManualClock()
    with namespaces.inside(city.host.namespace):
        squatter = socket.create_server(("127.0.0.1", 0))
    name(certs, "a.example", squatter.getsockname()[1])
    name(certs, "b.example", registry)
    with squatter:
        async with relays(city, certs, clock):
            assert await asyncio.to_thread(heard, city, registry) == b"hello"
