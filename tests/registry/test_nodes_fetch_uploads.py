"""Nodes fetch an uploaded machine image as the service account of a pod, and for its own namespace only."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from tarmac.api.compute.machineimage import registry_url
from tarmac.api.repositories import REGISTRY, Repository
from tarmac.apps.registry.registryserver import hosts_text
from tarmac.runtimes.interface import Credentials, ImageMismatch, ImageRefused
from tarmac.runtimes.qemu.images.store import NodeMachineImages
from tests.registry.conftest import Place
from tests.registry.test_uploading_machine_images import run, sum_of
from tests.support.bootsector import boot_sector

NAMESPACE = f"fetching-{os.getpid()}"
DISK = boot_sector("ticks", "fetched").ljust(3 << 20, b"\1")


@pytest.fixture(scope="module")
def uploaded(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A namespace with an uploaded image, `puller` with the right to pull it, and `other` without."""
    file = tmp_path_factory.mktemp("upload") / "os.raw"
    file.write_bytes(DISK)
    place.namespace(NAMESPACE)
    place.person(NAMESPACE, "puller", "tarmac:image-puller")
    place.person(NAMESPACE, "other")
    done = run(place, "os", str(file), namespace=NAMESPACE)
    assert done.returncode == 0, done
    yield place
    place.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def hosts(uploaded: Place, tmp_path: Path) -> Path:
    """Write the hosts file of a city, as `up` does."""
    folder = tmp_path / "certs.d"
    (folder / REGISTRY).mkdir(parents=True)
    text = hosts_text(uploaded.port, uploaded.process.data_dir / "pki" / "ca.crt")
    (folder / REGISTRY / "hosts.toml").write_text(text)
    return folder


@pytest.fixture
async def images(hosts: Path, tmp_path: Path) -> AsyncGenerator[NodeMachineImages]:
    store = NodeMachineImages(tmp_path / "kept", tmp_path / "local", registries=hosts)
    yield store
    await store.close()


def account(place: Place, name: str) -> Credentials:
    """Return a token for the registry alone, as nodes request one."""
    words = ("create", "token", name, "-n", NAMESPACE, f"--audience={REGISTRY}")
    return Credentials(name, place.kubectl(*words).strip())


def annotation(namespace: str = NAMESPACE, content: bytes = DISK, owner: str = NAMESPACE) -> str:
    source = {"url": registry_url(Repository(namespace, "os"))}
    return json.dumps({f"{owner}:os": {"size": "1Gi", "format": "raw", "checksum": sum_of(content), "source": source}})


async def refusal(images: NodeMachineImages, said: str, credentials: Credentials | None, owner: str = NAMESPACE) -> str:
    images.learn(said)
    with pytest.raises(ImageRefused) as raised:
        await images.pull(f"{owner}:os", credentials)
    return str(raised.value)


async def test_an_account_that_may_pull_gets_the_file(images: NodeMachineImages, uploaded: Place) -> None:
    async with images.disk(f"{NAMESPACE}:os", annotation(), account(uploaded, "puller")) as disk:
        assert disk.read_bytes()[: len(DISK)] == DISK


async def test_an_interrupted_fetch_resumes(images: NodeMachineImages, uploaded: Place, tmp_path: Path) -> None:
    told: list[int] = []
    images.learn(annotation())
    owner = hashlib.sha256(NAMESPACE.encode()).hexdigest()[:16]
    part = tmp_path / "kept" / f"{owner}-{sum_of(DISK).removeprefix('sha256:')}.part"
    part.write_bytes(DISK[: 2 << 20])
    await images.pull(f"{NAMESPACE}:os", account(uploaded, "puller"), lambda here, needed: told.append(here))
    assert told[0] > 2 << 20, "the first two MiB are not fetched again"


async def test_an_account_without_the_right_is_refused_with_the_right_it_needs(
    images: NodeMachineImages, uploaded: Place
) -> None:
    message = await refusal(images, annotation(), account(uploaded, "other"))
    assert 'cannot pull resource "repositories"' in message


async def test_a_file_that_was_not_uploaded_and_a_missing_account_are_told(
    images: NodeMachineImages, uploaded: Place
) -> None:
    lost = await refusal(images, annotation(content=b"lost"), account(uploaded, "puller"))
    assert lost.startswith(f"{REGISTRY}/{NAMESPACE}/os answered 404")
    assert "as the service account of a pod" in await refusal(images, annotation(), None)


async def test_a_repository_of_another_namespace_is_never_asked(images: NodeMachineImages, uploaded: Place) -> None:
    images.learn(annotation(owner="elsewhere"))
    with pytest.raises(ImageMismatch, match="does not belong to the namespace"):
        await images.pull("elsewhere:os", account(uploaded, "puller"))


async def test_a_node_that_does_not_know_the_registry_says_so(hosts: Path, tmp_path: Path) -> None:
    credentials = Credentials("default", "token")
    for number, known in enumerate((None, tmp_path / "empty")):
        store = NodeMachineImages(tmp_path / f"kept{number}", tmp_path, registries=known)
        assert "does not know the registry" in await refusal(store, annotation(), credentials)
        await store.close()
    (hosts / REGISTRY / "hosts.toml").write_text("server = ")
    store = NodeMachineImages(tmp_path / "kept9", tmp_path, registries=hosts)
    assert "cannot be read" in await refusal(store, annotation(), credentials)
    await store.close()
