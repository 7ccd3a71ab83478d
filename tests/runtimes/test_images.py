"""Images are known by name and id, counted, and removed."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.runtimes.interface import ImageRefused
from tests.runtimes.machine import Machine
from tests.support.containerd import BUSYBOX


async def test_an_image_is_found_by_name_and_by_id(machine: Machine) -> None:
    by_name = await machine.runtime.image(BUSYBOX)
    assert by_name is not None
    assert BUSYBOX in by_name.tags
    assert by_name.size > 0
    assert await machine.runtime.image(by_name.id) == by_name
    assert by_name.id in {each.id for each in await machine.runtime.images()}


async def test_an_image_that_is_not_here_is_none(machine: Machine) -> None:
    assert await machine.runtime.image("registry.test/none:1") is None


async def test_removing_what_is_not_here_is_no_complaint(machine: Machine) -> None:
    await machine.runtime.remove_image("registry.test/none:1")


async def test_images_take_space(machine: Machine) -> None:
    async with asyncio.timeout(30):  # containerd measures its snapshots every ten seconds
        while (space := await machine.runtime.image_space())[1] == 0:
            await asyncio.sleep(0.1)
    folder, _, inodes = space
    assert folder.startswith("/")
    assert inodes > 0


async def test_an_image_that_cannot_be_had_is_refused_with_its_name(machine: Machine) -> None:
    with pytest.raises(ImageRefused, match=r"127\.0\.0\.1:1/none"):
        await machine.runtime.pull("127.0.0.1:1/none:1", None)
