"""One planet for all tests of this folder: it takes a while to come up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tarmac.apps.registry.registryserver import PROGRAM
from tarmac.runtimes.parts import optional_program
from tests.node.planet import GUESTS, UBUNTU_FILE, Planet, down
from tests.support.guestimages import more_images, qcow2
from tests.support.ports import free_ports
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture(scope="package")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planet]:
    directory = tmp_path_factory.mktemp("planet") / "data"
    # Cities are hosts in 198.18.0.0/15; tests fetch images of namespaces from there, and from nowhere else.
    allowed = "--agent-arg=--tenant-image-networks=198.18.0.0/15"
    registry = free_ports(1)[0] if optional_program(PROGRAM) else 0
    flags = ("--runtime", "containerd", "--cities", "DFW,LHR", allowed)
    flags += ("--registry", str(registry)) if registry else ()
    try:
        files = {**GUESTS, UBUNTU_FILE: qcow2(GUESTS["first.raw"])}
        with more_images(directory.parent / "parts", files), TarmacProcess(directory, *flags, command="up") as process:
            yield Planet(process, directory.parent, registry)
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"
