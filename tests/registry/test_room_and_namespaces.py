"""A namespace pushes as much as its quota allows, and its images are deleted with it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tarmac.api.repositories import PULL, PUSH
from tarmac.apps.registry.pushed import remove, remove_idle_uploads, usage
from tarmac.apps.registry.registrypaths import RegistryFiles
from tarmac.apps.registry.upkeep import Upkeep
from tarmac.base.clock import ManualClock
from tarmac.server.reader import Reader
from tarmac.server.security.tokens.repositoryroom import RepositoryRoom
from tarmac.store.memory import MemoryStore
from tests.registry.client import Image
from tests.registry.conftest import SIMULATED, Place, made, registry_or_loud
from tests.support.ports import free_ports
from tests.support.tarmac_process import TarmacProcess

ROOT = Path("docker/registry/v2")


def blob(images: Path, digest: str, size: int) -> None:
    folder = images / ROOT / "blobs" / "sha256" / digest[:2] / digest
    folder.mkdir(parents=True)
    (folder / "data").write_bytes(b"x" * size)


def link(images: Path, repository: str, digest: str, kind: str = "_layers") -> None:
    folder = images / ROOT / "repositories" / repository / kind / "sha256" / digest
    folder.mkdir(parents=True)
    (folder / "link").write_text(f"sha256:{digest}")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two namespaces with a common layer, one unfinished upload, and one tag."""
    images = tmp_path / "images"
    shared, own = "a" * 64, "b" * 64
    blob(images, shared, 100)
    blob(images, own, 10)
    link(images, "red/app", shared)
    link(images, "red/deep/er", shared)
    link(images, "red/app", own, "_manifests/revisions")
    link(images, "blue/app", shared)
    tag = images / ROOT / "repositories/red/app/_manifests/tags/1/current"
    tag.mkdir(parents=True)
    (tag / "link").write_text(f"sha256:{own}")
    upload = images / ROOT / "repositories/red/app/_uploads/1"
    upload.mkdir(parents=True)
    (upload / "data").write_bytes(b"x" * 5)
    for each in (upload, upload / "data"):  # by the clock of these tests
        os.utime(each, (ManualClock().now(), ManualClock().now()))
    return images


def test_a_namespace_has_each_blob_once_and_what_is_being_uploaded(images: Path) -> None:
    assert usage(images) == {"red": 115, "blue": 100}
    assert usage(images / "none") == {}


def test_shared_layers_stay_when_a_namespace_is_deleted(images: Path) -> None:
    remove(images, ["red"])
    assert usage(images) == {"blue": 100}
    assert sorted(path.name for path in (images / ROOT / "blobs" / "sha256").glob("*/*")) == ["a" * 64]
    remove(images, ["blue", "never"])
    assert list((images / ROOT / "blobs" / "sha256").glob("*/*")) == []


class Planet:
    """A store with namespaces, and a registry's files."""

    def __init__(self, folder: Path) -> None:
        self.files = RegistryFiles(folder)
        self.store = MemoryStore()
        self.room = RepositoryRoom(Reader(self.store))

    def upkeep(self) -> Upkeep:
        return Upkeep(self.files, self.store, self.room, ManualClock())

    async def namespace(self, name: str, uid: str) -> None:
        raw = msgspec.json.encode({"metadata": {"name": name, "uid": uid}})
        await self.store.create("core/namespaces", name, raw)

    async def end(self, name: str) -> None:
        entry = self.store.head("core/namespaces", name)
        assert entry is not None
        await self.store.delete("core/namespaces", name, entry.revision)


@pytest.fixture
async def planet(images: Path) -> Planet:
    planet = Planet(images.parent)
    await planet.store.start()
    await planet.namespace("red", "r1")
    await planet.namespace("blue", "b1")
    return planet


async def test_a_namespace_over_its_quota_may_only_pull(planet: Planet) -> None:
    planet.room.most = 110
    assert planet.room.refusal("red", PUSH) is None  # not measured yet
    await planet.upkeep().look()
    assert planet.room.refusal("red", PUSH) == 'the namespace "red" has pushed 115 bytes, and may have 110 bytes'
    assert planet.room.refusal("red", PULL) is None
    assert planet.room.refusal("blue", PUSH) is None


async def test_a_push_that_cannot_fit_is_refused_before_it_begins(planet: Planet) -> None:
    planet.room.most = 200
    await planet.upkeep().look()
    assert planet.room.refusal("red", PUSH, 85) is None
    refusal = '86 bytes do not fit into the registry quota of the namespace "red": 115 bytes of 200 bytes are used'
    assert planet.room.refusal("red", PUSH, 86) == refusal
    assert planet.room.refusal("red", PULL, 86) is None
    planet.room.most, planet.room.free = None, 10
    assert planet.room.refusal("red", PUSH, 10) is None
    refusal = "11 bytes do not fit on the registry's disk, which has room for 10 bytes"
    assert planet.room.refusal("red", PUSH, 11) == refusal


async def test_the_room_of_the_registrys_disk_is_measured(planet: Planet) -> None:
    await planet.upkeep().look()
    assert planet.room.free is not None
    assert 0 < planet.room.free < shutil.disk_usage(planet.files.folder).free + 1


def test_an_interrupted_upload_goes_after_a_while_and_one_that_continues_stays(images: Path) -> None:
    [upload] = images.glob("**/_uploads/*")
    remove_idle_uploads(images, upload.stat().st_mtime - 1)
    assert usage(images)["red"] == 115
    for each in (upload, upload / "data"):
        os.utime(each, (1000, 1000))
    remove_idle_uploads(images, 1001)
    assert usage(images)["red"] == 110
    assert not upload.exists()


async def test_orphaned_repositories_are_removed(planet: Planet) -> None:
    upkeep = planet.upkeep()
    await upkeep.look()
    assert not upkeep.needed.is_set()
    await planet.end("red")
    assert planet.room.refusal("red", PULL) == 'the namespace "red" does not exist'
    await planet.namespace("red", "r2")
    for action in (PUSH, PULL):
        assert "is being removed" in (planet.room.refusal("red", action) or "")
    await upkeep.look()
    assert upkeep.needed.is_set()
    await upkeep.clean()
    assert usage(planet.files.images) == {"blue": 100}
    assert planet.room.refusal("red", PUSH) is None
    await upkeep.look()
    assert not upkeep.needed.is_set()


async def test_owners_are_known_after_a_restart(planet: Planet) -> None:
    await planet.upkeep().look()
    await planet.end("red")
    await planet.namespace("red", "r2")
    planet.room = RepositoryRoom(Reader(planet.store))
    again = planet.upkeep()
    assert "is being removed" in (planet.room.refusal("red", PULL) or "")
    await again.look()
    assert again.needed.is_set()


async def test_the_first_push_is_charged_to_the_namespace_of_its_token(planet: Planet) -> None:
    remove(planet.files.images, ["red"])
    upkeep = planet.upkeep()
    await upkeep.look()
    assert planet.room.refusal("red", PUSH) is None
    await planet.end("red")
    link(planet.files.images, "red/late", "a" * 64)
    await planet.namespace("red", "r2")
    await upkeep.look()
    assert upkeep.needed.is_set()


async def test_tokens_without_a_push_are_forgotten_with_the_namespace(planet: Planet) -> None:
    remove(planet.files.images, ["red"])
    assert planet.room.refusal("red", PUSH) is None
    await planet.end("red")
    await planet.upkeep().look()
    assert planet.room.owners == {"blue": "b1"}


@pytest.mark.parametrize("action", [PULL, PUSH])
async def test_a_recreated_namespace_waits_until_tokens_of_the_earlier_one_are_invalid(
    planet: Planet, action: str
) -> None:
    await planet.namespace("green", "g1")
    upkeep = planet.upkeep()
    assert planet.room.refusal("green", action) is None
    await planet.end("green")
    await upkeep.look()
    await planet.namespace("green", "g2")
    for each in (PULL, PUSH):
        refusal = planet.room.refusal("green", each) or ""
        assert refusal == 'tokens of an earlier namespace "green" are being invalidated: try again in a minute'
    await upkeep.look()
    assert upkeep.needed.is_set()
    await upkeep.clean()
    assert planet.room.refusal("green", PUSH) is None
    await upkeep.look()
    assert not upkeep.needed.is_set()


async def test_a_push_with_a_token_of_the_earlier_namespace_leaves_nothing_to_the_recreated_one(planet: Planet) -> None:
    await planet.namespace("green", "g1")
    upkeep = planet.upkeep()
    assert planet.room.refusal("green", PUSH) is None
    await planet.end("green")
    await upkeep.look()
    await planet.namespace("green", "g2")
    await upkeep.look()
    link(planet.files.images, "green/planted", "a" * 64)
    await upkeep.clean()
    assert "green" not in usage(planet.files.images)
    assert planet.room.refusal("green", PULL) is None


def eventually(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.1)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Place]:
    """A registry with a very small quota."""
    registry_or_loud()
    [port] = free_ports(1)
    flags = ("--registry", str(port), "--registry-quota", "100")
    with TarmacProcess(tmp_path / "data", *SIMULATED, *flags, command="up") as process:
        yield Place(process, port)
        process.stop()


def test_over_the_wire_a_full_namespace_is_told_and_goes_with_its_images(
    small: Place, image: Image, tmp_path: Path
) -> None:
    small.namespace("team")
    builder = small.person("team", "builder", "tarmac:image-pusher")
    assert builder.push(image, "team/app", "1").status == 201
    other = made(tmp_path, "more")

    def is_refused() -> bool:
        builder.token = ""
        return builder.push(other, "team/app", "2").status == 403

    eventually(is_refused, "a refusal")
    refused = builder.push(other, "team/app", "2")
    assert refused.message.startswith('the namespace "team" has pushed ')
    assert refused.message.endswith(" and may have 100 bytes")
    assert builder.pull("team/app", "1").status == 200
    stolen = builder.token
    small.kubectl("delete", "namespace", "team")
    images = small.process.data_dir / "registry" / "images"
    blobs = images / ROOT / "blobs" / "sha256"
    eventually(lambda: usage(images) == {} and not list(blobs.glob("*/*")), "its images gone")
    small.namespace("team")
    again = small.person("team", "builder", "tarmac:image-pusher")

    def is_pushed() -> bool:
        with suppress(OSError):  # it restarts after the removal
            return again.push(image, "team/app", "1").status == 201
        return False

    eventually(is_pushed, "a push to the new namespace")
    again.token = stolen
    assert again.send("GET", "/v2/team/app/manifests/1").status == 401, "a token outlives its namespace"
