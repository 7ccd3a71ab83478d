"""Images that namespaces bring: from public addresses only, within bounds, and shared with no other namespace."""

from __future__ import annotations

import hashlib
import itertools
import json
import socket
import threading
from collections.abc import Generator
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from tarmac.runtimes.interface import ImageRefused
from tarmac.runtimes.interface.errors import ImageMismatch
from tarmac.runtimes.qemu.images import fetch as fetching
from tarmac.runtimes.qemu.images.fetch import TenantLimits, fetch
from tarmac.runtimes.qemu.images.guard import TenantNetworks, own_addresses
from tarmac.runtimes.qemu.images.store import NodeMachineImages
from tests.runtimes.qemu.images.serving import FileServer, serving

CONTENT = bytes(range(256)) * 4096  # 1 MiB
HERE = TenantNetworks(allowed=(ip_network("127.0.0.0/8"),))
NOT_PUBLIC = "is fetched from public addresses only"


@pytest.fixture
def server() -> Generator[FileServer]:
    with serving(CONTENT) as found:
        yield found


def nothing(here: int, needed: int) -> None: ...


def limits(networks: TenantNetworks = HERE, max_bytes: int = 1 << 30, now: float = 0.0) -> TenantLimits:
    return TenantLimits(networks, max_bytes, lambda: now)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "198.18.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "fd00::1", "ff02::1",
        "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a00:1", "64:ff9b::7f00:1", "2002:7f00:1::",
        "2002:a9fe:a9fe::1", "2001:db8::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not TenantNetworks(own=tuple).permits(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_permitted_unless_they_are_denied_or_the_nodes_own(address: str) -> None:
    assert TenantNetworks(own=tuple).permits(address)
    plain = "8.8.8.8" if "8.8" in address or "808" in address else address
    assert not TenantNetworks(own=lambda: (plain,)).permits(address)
    denied = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    assert not TenantNetworks(denied=denied, own=tuple).permits(address)


def test_the_nodes_own_addresses_are_known() -> None:
    assert "127.0.0.1" in own_addresses()


def test_an_administrator_may_allow_a_network_and_a_denial_weighs_more() -> None:
    allowed = (ip_network("10.1.0.0/16"),)
    networks = TenantNetworks(allowed, denied=(ip_network("10.1.2.0/24"),), own=tuple)
    assert [networks.permits(each) for each in ("10.1.1.1", "10.1.2.1", "10.2.0.1")] == [True, False, False]


def test_a_file_comes_from_where_it_may_and_not_from_elsewhere(server: FileServer, tmp_path: Path) -> None:
    fetch(server.url, tmp_path / "file", nothing, limits())
    assert (tmp_path / "file").read_bytes() == CONTENT
    asked = len(server.asked)
    with pytest.raises(ImageRefused, match=NOT_PUBLIC) as refused:
        fetch(server.url.replace("127.0.0.1", "localhost"), tmp_path / "other", nothing, limits(TenantNetworks()))
    assert "127.0.0.1" not in str(refused.value), "the resolved address is not reported"
    assert len(server.asked) == asked


def test_a_redirect_leads_to_no_address_that_is_refused(server: FileServer, tmp_path: Path) -> None:
    with serving(CONTENT) as inside:
        server.redirects = [inside.url.replace("127.0.0.1", "127.0.0.2")]
        here = TenantNetworks(allowed=(ip_network("127.0.0.1/32"),))
        with pytest.raises(ImageRefused, match=NOT_PUBLIC):
            fetch(server.url, tmp_path / "file", nothing, limits(here))
        assert not inside.asked


def test_a_name_that_resolves_to_another_address_later_changes_nothing(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is resolved once: the connection uses the checked address."""
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    answers = ["127.0.0.1", "127.0.0.9"]

    def resolve(_host: str, _port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    here = TenantNetworks(allowed=(ip_network("127.0.0.1/32"),))
    fetch(f"http://images.example.com:{port}/os", tmp_path / "file", nothing, limits(here))
    assert answers == ["127.0.0.9"]


def test_no_proxy_of_the_node_is_asked(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    with pytest.raises(ImageRefused, match=NOT_PUBLIC):
        fetch("http://169.254.169.254/os", tmp_path / "file", nothing, limits())
    assert not server.asked


@pytest.mark.parametrize("stated", [True, False])
def test_a_file_that_is_larger_than_its_disk_is_not_taken(server: FileServer, tmp_path: Path, stated: bool) -> None:
    server.length = stated
    with pytest.raises(ImageRefused, match="and this node takes 1000"):
        fetch(server.url, tmp_path / "file", nothing, limits(max_bytes=1000))
    assert not (tmp_path / "file").exists() or (tmp_path / "file").stat().st_size <= 1000


def test_an_attempt_ends_however_slowly_a_server_sends(server: FileServer, tmp_path: Path) -> None:
    seconds = iter([0.0, *([fetching.TENANT_TIMEOUT + 1] * 1000)])
    slow = TenantLimits(HERE, 1 << 30, lambda: next(seconds))
    with pytest.raises(ImageRefused, match="was not here after 3600 s"):
        fetch(server.url, tmp_path / "file", nothing, slow)


@pytest.mark.parametrize("line", [b"HTTP/1.1 100 Continue\r\n\r\n", b"X-Header: 1\r\n", b"x"])
def test_an_attempt_ends_while_a_server_sends_its_head(line: bytes, tmp_path: Path) -> None:
    clock = itertools.count(step=fetching.TENANT_TIMEOUT / 20)
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" if line[:1] == b"X" else b"")
            while not ended.wait(0.001):
                connection.sendall(line)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            slow = TenantLimits(HERE, 1 << 30, lambda: next(clock))
            with pytest.raises(ImageRefused, match="was not here after 3600 s"):
                fetch(f"http://127.0.0.1:{listener.getsockname()[1]}/image", tmp_path / "file", nothing, slow)
        finally:
            ended.set()
            thread.join()


def image(url: str, content: bytes = CONTENT, **more: Any) -> dict[str, Any]:
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"size": "1Gi", "format": "raw", "source": {"url": url}, "checksum": checksum, **more}


async def pulled(images: NodeMachineImages, name: str, spec: dict[str, Any]) -> str:
    images.learn(json.dumps({name: spec}))
    return await images.pull(name, None)


@pytest.mark.root
async def test_a_sum_alone_gives_nobody_the_image_of_another(server: FileServer, tmp_path: Path) -> None:
    images = NodeMachineImages(tmp_path / "images", tmp_path, HERE)
    first = await pulled(images, "team-a:os", image(server.url))
    asked = len(server.asked)
    assert await pulled(images, "team-a:os", image(server.url)) == first
    assert len(server.asked) == asked, "it is here for its namespace"
    server.status = 403
    with pytest.raises(ImageRefused, match="answered 403"):
        await pulled(images, "team-b:os", image(server.url))
    server.status = 200
    assert await pulled(images, "team-b:os", image(server.url)) != first
    await images.close()


@pytest.mark.root
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"source": {"file": "secret.raw"}}, "has a disk at an address"),
        ({"boot": {"kernel": {"file": "vmlinuz", "checksum": f"sha256:{0:064}"}}}, "has a disk at an address"),
        ({"checksum": f"sha256:{0:064}"}, "the file's sum is"),
        ({"format": "qcow2"}, "qcow2"),
    ],
)
async def test_a_file_that_contradicts_its_stated_format_is_refused(
    server: FileServer, tmp_path: Path, spec: dict[str, Any], message: str
) -> None:
    (tmp_path / "secret.raw").write_bytes(b"secret")
    images = NodeMachineImages(tmp_path / "images", tmp_path, HERE)
    with pytest.raises(ImageMismatch, match=message):
        await pulled(images, "team-a:os", {**image(server.url), **spec})
    await images.close()
