"""One planet with a registry and without real nodes, for all tests of this folder: it needs no rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.runtimes.parts import PartMissing, find_program
from tests.node.planet import down
from tests.registry.client import Client, Image, image_of
from tests.support.kubectl import Kubectl
from tests.support.ports import free_ports
from tests.support.tarmac_process import TarmacProcess
from tools.oci import Entry, write_image
from tools.oci import Image as Layout

SIMULATED = ("--runtime", "sim", "--cities", "DFW", "--sim-nodes", "1")


class Place:
    """A running `up --registry`, and users with rights there."""

    def __init__(self, process: TarmacProcess, port: int) -> None:
        self.process = process
        self.port = port
        self.kubectl = Kubectl(process.kubeconfig, process.data_dir.parent)

    @property
    def realm(self) -> str:
        """The URL of the token service."""
        return f"{self.process.url}/registry/token"

    def client(self, password: str = "") -> Client:
        """Return a client of the registry."""
        return Client(self.port, self.process.data_dir / "pki" / "ca.crt", password)

    def namespace(self, name: str) -> None:
        """Create a namespace."""
        self.kubectl("create", "namespace", name)

    def person(self, namespace: str, name: str, role: str = "", *, of: str = "") -> Client:
        """Create a service account, with a role in its namespace or another; return its token, the password."""
        self.kubectl("create", "serviceaccount", name, "-n", namespace)
        if role:
            account = f"--serviceaccount={namespace}:{name}"
            self.kubectl("create", "rolebinding", name, f"--clusterrole={role}", account, "-n", of or namespace)
        return self.client(self.kubectl("create", "token", name, "-n", namespace).strip())

    def apply(self, manifest: dict[str, object]) -> None:
        """Apply one object."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def registry_or_loud() -> None:
    """Fail these tests with the reason on a machine without the package: they never pass by not running."""
    try:
        find_program("docker-registry")
    except PartMissing as missing:
        pytest.fail(f"NOT TESTED: {missing}; `make registry` fetches Debian's package", pytrace=False)


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    registry_or_loud()
    [port] = free_ports(1)
    directory = tmp_path_factory.mktemp("registry") / "data"
    try:
        with TarmacProcess(directory, *SIMULATED, "--registry", str(port), command="up") as process:
            yield Place(process, port)
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return made(tmp_path_factory.mktemp("image"), "hello")


def made(folder: Path, text: str) -> Image:
    """A small image whose program prints a line."""
    target = folder / "image.tar"
    layers = [[Entry("app", f"#!/bin/sh\necho {text}\n".encode())]]
    write_image(Layout("app:1", layers, entrypoint=("/app",)), target)
    return image_of(target)
