"""Images are pulled from registries, offline ones here: by name, by digest, with a password."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.runtimes.cri import CriRuntime
from tarmac.runtimes.interface import Credentials, ImageRefused
from tests.runtimes.machine import RealMachine
from tests.support.containerd import ContainerdNode
from tests.support.oddregistry import OddRegistry
from tests.support.registry import PASSWORD, USERNAME, Registry, mirror
from tools.oci import Entry, Image, write_image

pytestmark = [pytest.mark.root]

IMAGE = "images.example.test/team/web:1"


@pytest.fixture
async def runtime(containerd_node: ContainerdNode) -> AsyncIterator[CriRuntime]:
    """The shared runtime, without the images of these tests, before and after."""
    made = CriRuntime(containerd_node.endpoint)
    yield made
    for image in await made.images():
        if any(".test/" in name for name in (*image.tags, *image.digests)):
            await made.remove_image(image.id)
    await made.close()


@pytest.fixture
def registry(tmp_path: Path, containerd_node: ContainerdNode) -> Iterator[Registry]:
    """A registry without a password, the mirror of every registry."""
    yield from _serving(Registry(tmp_path / "registry"), containerd_node)


@pytest.fixture
def private_registry(tmp_path: Path, containerd_node: ContainerdNode) -> Iterator[Registry]:
    """A registry with a password."""
    yield from _serving(Registry(tmp_path / "registry", private=True), containerd_node)


def _serving(registry: Registry, node: ContainerdNode) -> Iterator[Registry]:
    registry.start()
    registry.mirror(node.settings.certs)
    try:
        yield registry
    finally:
        registry.stop()


def _tar(node: ContainerdNode) -> Path:
    return next(tar for tar in node.settings.parts.images if tar.stem == "web-1")


async def test_an_image_of_any_registry_is_pulled_and_runs(
    runtime: CriRuntime, registry: Registry, containerd_node: ContainerdNode
) -> None:
    digest = registry.push(_tar(containerd_node), "team/web", "1")
    image_id = await runtime.pull(IMAGE, None)
    image = await runtime.image(IMAGE)
    assert image is not None
    assert image_id == image.id
    assert IMAGE in image.tags
    assert f"images.example.test/team/web@{digest}" in image.digests
    machine = RealMachine(containerd_node, "runc")
    running = await machine.run(replace(machine.waits(), image=image_id, image_name=IMAGE))
    assert "landed" in await running.says("cat", "/www/index.html")
    await machine.clean()


async def test_an_image_is_pulled_by_its_digest_and_only_that(
    runtime: CriRuntime, registry: Registry, containerd_node: ContainerdNode
) -> None:
    digest = registry.push(_tar(containerd_node), "team/web", "1")
    await runtime.pull(f"images.example.test/team/web@{digest}", None)
    another = f"sha256:{'0' * 64}"
    with pytest.raises(ImageRefused, match="not found"):
        await runtime.pull(f"images.example.test/team/web@{another}", None)


async def test_a_tag_that_is_not_there_is_refused_by_name(runtime: CriRuntime, registry: Registry) -> None:
    with pytest.raises(ImageRefused, match=r"images\.example\.test/team/none:1.*not found"):
        await runtime.pull("images.example.test/team/none:1", None)


async def test_a_name_that_is_none_is_refused(runtime: CriRuntime) -> None:
    with pytest.raises(ImageRefused, match="invalid reference format"):
        await runtime.pull("images.example.test/Team/Web:1", None)


async def test_a_registry_that_is_away_is_a_refusal_that_says_so(runtime: CriRuntime, registry: Registry) -> None:
    registry.stop()
    with pytest.raises(ImageRefused, match="connection refused"):
        await runtime.pull(IMAGE, None)


async def test_a_private_image_wants_the_password(
    runtime: CriRuntime, private_registry: Registry, containerd_node: ContainerdNode
) -> None:
    private_registry.push(_tar(containerd_node), "team/web", "1")
    with pytest.raises(ImageRefused, match=r"authorization failed|401"):
        await runtime.pull(IMAGE, None)
    with pytest.raises(ImageRefused, match=r"authorization failed|401") as refusal:
        await runtime.pull(IMAGE, Credentials(USERNAME, "wrong pony"))
    assert "wrong pony" not in str(refusal.value)
    assert await runtime.pull(IMAGE, Credentials(USERNAME, PASSWORD))


async def test_a_password_is_written_nowhere(
    runtime: CriRuntime, private_registry: Registry, containerd_node: ContainerdNode
) -> None:
    private_registry.push(_tar(containerd_node), "team/web", "1")
    await runtime.pull(IMAGE, Credentials(USERNAME, PASSWORD))
    places = (containerd_node.settings.root, containerd_node.settings.run)
    files = [Path(folder) / name for place in places for folder, _, names in os.walk(place) for name in names]
    assert len(files) > 20
    assert not [path for path in files if PASSWORD.encode() in _bytes(path)]


async def test_a_layer_that_is_not_what_was_promised_is_refused(
    runtime: CriRuntime, containerd_node: ContainerdNode
) -> None:
    with OddRegistry(_fresh_image(containerd_node), corrupt=True) as odd:
        mirror(containerd_node.settings.certs, odd.address)
        with pytest.raises(ImageRefused, match="unexpected commit digest"):
            await runtime.pull(IMAGE, None)
    assert await runtime.image(IMAGE) is None


async def test_a_slow_pull_says_how_far_it_is(runtime: CriRuntime, containerd_node: ContainerdNode) -> None:
    steps: list[tuple[int, int]] = []
    with OddRegistry(_fresh_image(containerd_node), seconds=3.5) as odd:
        mirror(containerd_node.settings.certs, odd.address)
        await runtime.pull(IMAGE, None, progress=lambda *step: steps.append(step))
    assert len(steps) >= 2
    assert all(0 <= here <= total for here, total in steps)
    assert steps[-1][0] > 0
    assert steps == sorted(steps)


async def test_a_pull_that_nobody_waits_for_is_given_up(runtime: CriRuntime, containerd_node: ContainerdNode) -> None:
    with OddRegistry(_fresh_image(containerd_node), seconds=30) as odd:
        mirror(containerd_node.settings.certs, odd.address)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runtime.pull(IMAGE, None), 1)
        assert await runtime.image(IMAGE) is None


def _bytes(path: Path) -> bytes:
    """Return the content of a file; empty for sockets, namespaces and files that have just gone."""
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    except OSError:
        return b""


def _fresh_image(node: ContainerdNode) -> Path:
    """Return an image with a layer that is new to containerd, which downloads no layer twice."""
    target = node.folder / f"{os.urandom(4).hex()}.tar"
    write_image(Image("unused:1", [[Entry("big", os.urandom(5_000_000))]]), target)
    return target
