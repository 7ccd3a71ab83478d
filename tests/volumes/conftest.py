"""Every behaviour is tested on plain folders and, as root, on real mounts."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.volumes.linux.mountinfo import mounts
from tests.volumes.bench import Bench

ROOT = (pytest.mark.root,)


@pytest.fixture(params=["folders", pytest.param("linux", marks=ROOT)])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Bench]:
    """Return a bench of either kind; remove its mounts at the end, and fail if any is left."""
    async for each in _bench(tmp_path, real=request.param == "linux"):
        yield each


@pytest.fixture
async def linux(tmp_path: Path) -> AsyncGenerator[Bench]:
    """Return a bench with real mounts. Tests that use it carry the marker `root`."""
    async for each in _bench(tmp_path, real=True):
        yield each


async def _bench(folder: Path, real: bool) -> AsyncGenerator[Bench]:
    if real and os.geteuid() != 0:
        pytest.fail("mounts need root: run as root, or leave these out with -m 'not root'")
    made = Bench(os.path.realpath(folder / "root"), real)
    await made.volumes.start()
    yield made
    await made.volumes.purge()
    assert mounts(made.root) == []
    assert not made.leftovers()["loops"]
