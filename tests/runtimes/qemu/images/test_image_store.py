"""Machine images are provided once, kept across restarts, listed as images, and removed when unused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tarmac.runtimes.interface import ImageMismatch, ImageRefused, RuntimeRefused
from tarmac.runtimes.qemu.images.store import NodeMachineImages
from tests.runtimes.qemu.images.serving import FileServer, serving

DISK = b"boot" + bytes((1 << 20) - 4)


def checksum(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def annotation(*names: str, **spec: object) -> str:
    return json.dumps(
        {name: {"size": "1Gi", "format": "raw", "checksum": checksum(DISK), **spec} for name in names or ("acme/os",)}
    )


@pytest.fixture
def local(tmp_path: Path) -> Path:
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "os.raw").write_bytes(DISK)
    (folder / "vmlinuz").write_bytes(b"kernel")
    return folder


@pytest.fixture
async def images(tmp_path: Path, local: Path) -> AsyncGenerator[NodeMachineImages]:
    store = NodeMachineImages(tmp_path / "kept", local)
    yield store
    await store.close()


@pytest.fixture
def server() -> Generator[FileServer]:
    with serving(DISK) as found:
        yield found


LOCAL: dict[str, object] = {"source": {"file": "os.raw"}}


async def test_a_raw_file_of_the_node_is_used_where_it_is(
    images: NodeMachineImages, tmp_path: Path, local: Path
) -> None:
    images.learn(annotation(**LOCAL))
    assert await images.image("acme/os") is None
    pulled = await images.pull("acme/os", None)
    found = await images.image("acme/os")
    assert found is not None
    assert (found.id, found.tags, found.digests) == (pulled, ("acme/os",), (f"acme/os@{checksum(DISK)}",))
    assert found.pinned  # there is nothing of ours to remove
    async with images.disk("acme/os", annotation(**LOCAL)) as path:
        assert path == local / "os.raw"
    assert os.listdir(tmp_path / "kept") == [f"{pulled.removeprefix('sha256:')}.json"]


async def test_a_file_that_was_changed_since_is_looked_at_again(images: NodeMachineImages, local: Path) -> None:
    images.learn(annotation(**LOCAL))
    await images.pull("acme/os", None)
    (local / "os.raw").write_bytes(DISK[::-1])
    assert await images.image("acme/os") is None
    with pytest.raises(ImageMismatch, match="the catalogue says"):
        await images.pull("acme/os", None)


async def test_boot_files_and_cloud_init_support_survive_a_restart(
    images: NodeMachineImages, tmp_path: Path, local: Path
) -> None:
    kernel = {"file": "vmlinuz", "checksum": checksum(b"kernel")}
    images.learn(annotation(**LOCAL, boot={"kernel": kernel, "commandLine": "quiet"}, accepts="none"))
    pulled = await images.pull("acme/os", None)
    restarted = NodeMachineImages(tmp_path / "kept", local)
    boot = restarted.boot_files(pulled)
    assert boot is not None
    assert (boot.kernel, boot.initrd, boot.command_line) == (local / "vmlinuz", None, "quiet")
    assert not restarted.accepts_cloud_init(pulled)
    assert await restarted.image(pulled) is not None


async def test_another_word_of_the_catalogue_is_another_image(images: NodeMachineImages) -> None:
    images.learn(annotation(**LOCAL))
    first = await images.pull("acme/os", None)
    images.learn(annotation(**LOCAL, accepts="none"))
    assert await images.image("acme/os") is None
    second = await images.pull("acme/os", None)
    assert first != second
    assert images.accepts_cloud_init(first)
    images.learn(annotation(**LOCAL, format="qcow2"))
    with pytest.raises(ImageMismatch, match="not a qcow2 image"):
        await images.pull("acme/os", None)


async def test_an_unavailable_image_is_refused_with_the_reason(images: NodeMachineImages) -> None:
    with pytest.raises(ImageRefused, match="nobody has said what image acme/os is"):
        await images.pull("acme/os", None)
    images.learn(annotation())
    with pytest.raises(ImageRefused, match=r"acme/os has no source: set spec.source and spec.checksum"):
        await images.pull("acme/os", None)
    images.learn(annotation(source={"file": "missing"}))
    with pytest.raises(ImageRefused, match="there is no file missing"):
        await images.pull("acme/os", None)
    images.learn(annotation(**LOCAL, checksum="sha256:../../x"))
    with pytest.raises(ImageMismatch, match="64 hex digits"):
        await images.pull("acme/os", None)
    for wrong in ("{", '{"acme/os": {"size": "x"}}', '{"acme/os": 3}'):
        with pytest.raises(RuntimeRefused, match="cannot be read"):
            images.learn(wrong)


@pytest.mark.root
async def test_a_fetched_image_is_kept_once_and_goes_with_its_last_user(
    images: NodeMachineImages, server: FileServer, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    fetched: dict[str, object] = {"source": {"url": server.url}}
    images.learn(annotation(**fetched))
    images.learn(annotation("acme/other", **fetched, accepts="none"))
    pulls = [images.pull(name, None, lambda *each: told.append(each)) for name in ("acme/os", "acme/other", "acme/os")]
    first, second, again = await asyncio.gather(*pulls)
    assert (len(server.asked), first == again) == (1, True)
    assert (len(DISK), len(DISK)) in told
    [kept] = (tmp_path / "kept").glob("*.raw")
    async with images.disk("acme/os", annotation(**fetched)) as path:
        assert path == kept
        assert {each.id: each.pinned for each in await images.images()} == {first: True, second: False}
        with pytest.raises(RuntimeRefused, match="a disk is being made"):
            await images.remove_image(first)
    await images.remove_image(first)
    assert kept.exists()
    await images.remove_image("acme/other")
    assert os.listdir(tmp_path / "kept") == []
    assert await images.images() == []


@pytest.mark.root
async def test_a_wrong_part_is_not_gone_on_from(images: NodeMachineImages, server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "kept" / f"{checksum(DISK).removeprefix('sha256:')}.part").write_bytes(b"x" * 1000)
    images.learn(annotation(source={"url": server.url}))
    with pytest.raises(ImageMismatch):
        await images.pull("acme/os", None)
    await images.pull("acme/os", None)
    assert server.asked == ["bytes=1000-", ""]


async def test_a_pull_that_nobody_waits_for_ends(images: NodeMachineImages, server: FileServer) -> None:
    heard = asyncio.Event()
    images.learn(annotation(source={"url": server.url}))
    server.content = bytes(64 << 20)
    pull = asyncio.ensure_future(images.pull("acme/os", None, lambda *_: heard.set()))
    await heard.wait()
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    assert await images.images() == []


async def test_unfinished_files_of_a_killed_agent_are_removed_at_start(tmp_path: Path, local: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "x.cage").mkdir(parents=True)
    for name in ("x.new", "x.unpacked", "x.json~", "x.part"):
        (kept / name).write_text("half")
    NodeMachineImages(kept, local)
    assert os.listdir(kept) == ["x.part"]
    assert kept.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(kept)


@pytest.fixture
def published(server: FileServer) -> Generator[tuple[FileServer, FileServer]]:
    """A disk, and a file of checksums beside it."""
    with serving(f"{'0' * 64} *other.raw\n{checksum(DISK)[7:]} *os.raw\n".encode()) as sums:
        yield server, sums


def renewed(server: FileServer, sums: FileServer, name: str = "os.raw") -> str:
    source = {"url": f"{server.url.rstrip('/')}/{name}", "checksums": f"{sums.url.rstrip('/')}/SHA256SUMS"}
    return annotation(checksum="", source=source)


@pytest.mark.root
async def test_the_sum_of_a_file_that_its_publisher_renews_is_settled_when_it_is_first_fetched(
    tmp_path: Path, published: tuple[FileServer, FileServer]
) -> None:
    disk, sums = published
    images = NodeMachineImages(tmp_path / "kept", tmp_path / "nothing")
    images.learn(renewed(disk, sums))
    first = await images.pull("acme/os", None)
    found = await images.image("acme/os")
    assert found is not None
    assert found.digests == (f"acme/os@{checksum(DISK)}",)
    disk.content, sums.content = b"another", b""
    again = NodeMachineImages(tmp_path / "kept", tmp_path / "nothing")
    again.learn(renewed(disk, sums))
    assert await again.pull("acme/os", None) == first, "the local image is kept when newer ones are published"
    assert len(sums.asked) == 1
    assert not list((tmp_path / "kept").glob("*.sums"))
    for each in (images, again):
        await each.close()


@pytest.mark.root
async def test_a_file_that_the_list_does_not_know_or_has_another_sum_for_is_not_taken(
    tmp_path: Path, published: tuple[FileServer, FileServer]
) -> None:
    disk, sums = published
    images = NodeMachineImages(tmp_path / "kept", tmp_path / "nothing")
    images.learn(renewed(disk, sums, "unknown.raw"))
    with pytest.raises(ImageRefused, match="does not have unknown"):
        await images.pull("acme/os", None)
    images.learn(renewed(disk, sums, "other.raw"))
    with pytest.raises(ImageMismatch, match="the file's sum is"):
        await images.pull("acme/os", None)
    await images.close()


async def test_a_node_without_a_way_there_says_how_to_bring_the_file_and_takes_it(
    images: NodeMachineImages, tmp_path: Path, local: Path, published: tuple[FileServer, FileServer]
) -> None:
    disk, sums = published
    nowhere = {"url": "http://127.0.0.1:1/new.raw", "checksums": "http://127.0.0.1:1/SHA256SUMS"}
    images.learn(annotation(checksum="", source=nowhere))
    with pytest.raises(ImageRefused, match=f"127.0.0.1:1 cannot be reached.*install -m 0644 new.raw {local}/"):
        await images.pull("acme/os", None)
    (local / "new.raw").write_bytes(DISK)
    await images.pull("acme/os", None)
    images.learn(annotation(source={"url": "http://127.0.0.1:1/new.raw"}, checksum=f"sha256:{0:064}"))
    with pytest.raises(ImageMismatch, match="the file's sum is"):
        await images.pull("acme/os", None)
    assert not disk.asked
    assert not sums.asked


async def test_an_image_whose_record_cannot_be_written_is_refused_and_had_later(
    images: NodeMachineImages, tmp_path: Path
) -> None:
    images.learn(annotation(**LOCAL))
    pulled = await images.pull("acme/os", None)
    await images.remove_image("acme/os")
    blocked = tmp_path / "kept" / f"{pulled.removeprefix('sha256:')}.json~"
    blocked.mkdir()
    with pytest.raises(ImageRefused, match="acme/os"):
        await images.pull("acme/os", None)
    blocked.rmdir()
    assert await images.pull("acme/os", None) == pulled
