"""One planet for all tests of this folder: it takes a while to come up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.planet import GUESTS, Planet, down
from tests.support.guestimages import more_images
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture(scope="package")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planet]:
    directory = tmp_path_factory.mktemp("planet") / "data"
    flags = ("--runtime", "containerd", "--cities", "DFW,LHR")
    try:
        with more_images(directory.parent / "parts", GUESTS), TarmacProcess(directory, *flags, command="up") as process:
            yield Planet(process, directory.parent)
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"
