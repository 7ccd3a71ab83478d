"""`tarmac image upload`: a tenant uploads an operating system; a rejected or broken upload leaves no image."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarmac.apps.registry.registrypaths import files_of, registries_of
from tests.registry.client import Client
from tests.registry.conftest import SIMULATED, Place, registry_or_loud
from tests.support.bootsector import boot_sector
from tests.support.ports import free_ports
from tests.support.tarmac_process import TarmacProcess

NAMESPACE = f"uploads-{os.getpid()}"
LARGE = 96 << 20


def command(place: Place, *arguments: str, namespace: str = NAMESPACE, registry: str = "") -> list[str]:
    flags = ["--kubeconfig", str(place.process.kubeconfig), "--registry", registry or f"127.0.0.1:{place.port}"]
    return [sys.executable, "-m", "tarmac.apps.main", "image", "upload", *arguments, "-n", namespace, *flags]


def run(place: Place, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(place, *arguments, **more), capture_output=True, text=True, timeout=120, check=False)


def sum_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def image(place: Place, name: str, namespace: str = NAMESPACE) -> dict[str, object]:
    return json.loads(place.kubectl("get", "localmachineimage", name, "-n", namespace, "-o", "json"))["spec"]


def images(place: Place) -> str:
    return place.kubectl("get", "localmachineimages", "-n", NAMESPACE, "-o", "name")


def blob(place: Place, name: str, digest: str) -> int:
    """Return the status of a builder's request for the file."""
    return builder(place).call("HEAD", f"/v2/{NAMESPACE}/{name}/blobs/{digest}").status


def builder(place: Place) -> Client:
    return place.client(place.kubectl("create", "token", "builder", "-n", NAMESPACE).strip())


@pytest.fixture(scope="module")
def tenant(place: Place) -> Iterator[Place]:
    place.namespace(NAMESPACE)
    place.person(NAMESPACE, "builder", "tarmac:image-pusher")
    yield place
    place.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A raw disk with a boot sector."""
    made = tmp_path / "os.raw"
    made.write_bytes(boot_sector("ticks", "hello").ljust(1 << 20, b"\0"))
    return made


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A disk of many chunks, with content of its own."""
    made = tmp_path / "large.raw"
    with made.open("wb") as file:
        file.write(boot_sector("ticks", "large").ljust(512, b"\0") + os.urandom(1 << 16))
        file.truncate(LARGE)
    return made


def test_an_uploaded_file_becomes_an_image_of_the_namespace_with_its_checksum(tenant: Place, disk: Path) -> None:
    done = run(tenant, "acme-os", str(disk))
    assert (done.returncode, done.stdout) == (0, "localmachineimage.compute.datumapis.com/acme-os created\n"), done
    assert "uploading: 100% of 1.0 MB" in done.stderr
    assert f"kubectl -n {NAMESPACE} create rolebinding" in done.stderr, "instances may not pull yet"
    digest = sum_of(disk.read_bytes())
    spec = {"size": "1Gi", "format": "raw", "source": {"repository": "acme-os"}, "checksum": digest}
    assert spec.items() <= image(tenant, "acme-os").items()
    assert blob(tenant, "acme-os", digest) == 200
    manifest = builder(tenant).pull(f"{NAMESPACE}/acme-os", digest.partition(":")[2])
    assert manifest.json["layers"][0]["digest"] == digest


def test_the_same_file_is_not_sent_twice_and_a_new_one_replaces_it(tenant: Place, disk: Path) -> None:
    assert run(tenant, "twice", str(disk)).returncode == 0
    again = run(tenant, "twice", str(disk))
    assert again.returncode == 0
    assert "has this file already" in again.stderr
    assert "uploading" not in again.stderr
    disk.write_bytes(boot_sector("ticks", "second").ljust(1 << 20, b"\0"))
    done = run(tenant, "twice", str(disk), "--firmware", "uefi", "-o", "json")
    assert json.loads(done.stdout)["spec"]["checksum"] == sum_of(disk.read_bytes())
    assert image(tenant, "twice")["firmware"] == "uefi"


def test_an_image_that_had_an_address_gets_the_uploaded_file_instead(tenant: Place, disk: Path) -> None:
    source = {"url": "https://images.example.com/os.raw.gz"}
    spec = {"size": "2Gi", "format": "raw", "compression": "gzip", "source": source, "checksum": sum_of(b"")}
    kind = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "LocalMachineImage"}
    tenant.apply({**kind, "metadata": {"name": "moved", "namespace": NAMESPACE}, "spec": spec})
    done = run(tenant, "moved", str(disk))
    assert done.stdout.endswith("/moved configured\n"), done
    found = image(tenant, "moved")
    assert found["source"] == {"repository": "moved"}
    assert "compression" not in found


def test_a_packed_file_says_so_in_its_image(tenant: Place, disk: Path) -> None:
    packed = disk.with_suffix(".raw.gz")
    packed.write_bytes(gzip.compress(disk.read_bytes()))
    refused = run(tenant, "packed", str(packed))
    assert (refused.returncode, "give --size" in refused.stderr) == (2, True)
    assert run(tenant, "packed", str(packed), "--size", "2Gi").returncode == 0
    spec = {"size": "2Gi", "format": "raw", "compression": "gzip", "checksum": sum_of(packed.read_bytes())}
    assert spec.items() <= image(tenant, "packed").items()


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"KDMV" + bytes(1024), (), "a VMDK disk; convert it: qemu-img convert"),
        (bytes(2048), ("--format", "raw"), "neither qcow2 nor a raw disk with a boot sector"),
        (boot_sector("ticks", "x").ljust(1024, b"\0"), ("--format", "qcow2"), "its content is raw, and --format says"),
        (b"QFI\xfb" + bytes(1024), (), "the qcow2 image has version 0"),
    ],
    ids=["vmdk", "no boot sector", "another format", "damaged qcow2"],
)
def test_a_file_of_a_wrong_format_is_refused_before_anything_is_sent(
    tenant: Place, tmp_path: Path, content: bytes, flags: tuple[str, ...], message: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    done = run(tenant, "wrong", str(tmp_path / "file"), *flags, registry="127.0.0.1:1")
    assert done.returncode == 2
    assert message in done.stderr
    assert "wrong" not in images(tenant)


def test_without_a_registry_the_error_says_how_to_start_one(tenant: Place, disk: Path) -> None:
    [port] = free_ports(1)
    done = run(tenant, "lost", str(disk), registry=f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"the registry at 127.0.0.1:{port} cannot be reached" in done.stderr
    assert "start one with `tarmac up --registry`" in done.stderr
    assert "lost" not in images(tenant)


def test_a_stranger_of_the_namespace_is_refused_with_the_missing_right(tenant: Place, disk: Path) -> None:
    tenant.kubectl("create", "serviceaccount", "stranger", "-n", NAMESPACE)
    token = tenant.kubectl("create", "token", "stranger", "-n", NAMESPACE).strip()
    config = json.loads(tenant.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    mine = disk.with_name("kubeconfig")
    mine.write_text(json.dumps(config))
    words = [*command(tenant, "theirs", str(disk)), "--kubeconfig", str(mine)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert 'cannot push resource "repositories"' in done.stderr
    assert "theirs" not in images(tenant)


@contextmanager
def uploading(place: Place, name: str, file: Path) -> Generator[subprocess.Popen[str]]:
    """Yield an upload after its first bytes have reached the registry."""
    with subprocess.Popen(command(place, name, str(file)), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = next((line for line in process.stderr if line.startswith("uploading")), "")
        assert first, "the upload never started"
        assert "100%" not in first
        yield process


def test_an_upload_killed_in_the_middle_leaves_nothing_visible_and_the_next_one_succeeds(
    tenant: Place, large: Path
) -> None:
    with uploading(tenant, "killed", large) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL, "it was in the middle"
    digest = sum_of(large.read_bytes())
    assert "killed" not in images(tenant)
    assert blob(tenant, "killed", digest) == 404
    assert run(tenant, "killed", str(large)).returncode == 0
    assert image(tenant, "killed")["checksum"] == digest
    assert blob(tenant, "killed", digest) == 200


def test_an_upload_outlives_a_registry_that_is_killed(tenant: Place, large: Path) -> None:
    with uploading(tenant, "steady", large) as process:
        [registry] = registries_of(tenant.process.data_dir)
        os.kill(registry, signal.SIGKILL)
        _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert blob(tenant, "steady", sum_of(large.read_bytes())) == 200


def test_a_file_that_changes_during_its_upload_is_refused(tenant: Place, large: Path) -> None:
    with uploading(tenant, "changed", large) as process:
        with large.open("r+b") as file:
            file.seek(LARGE - 512)
            file.write(b"other")
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "if the file changed meanwhile, run the command again" in said
    assert "changed" not in images(tenant)


def test_a_file_above_the_quota_is_refused_before_it_is_sent(tmp_path: Path, large: Path, disk: Path) -> None:
    registry_or_loud()
    [port] = free_ports(1)
    flags = ("--registry", str(port), "--registry-quota", "64Mi")
    with TarmacProcess(tmp_path / "data", *SIMULATED, *flags, command="up") as process:
        place = Place(process, port)
        refused = run(place, "large", str(large), namespace="default")
        assert refused.returncode == 1
        assert '96 MiB do not fit into the registry quota of the namespace "default"' in refused.stderr
        assert "uploading" not in refused.stderr
        stored = files_of(tmp_path / "data").images
        assert sum(each.stat().st_size for each in stored.rglob("data")) == 0
        assert run(place, "small", str(disk), namespace="default").returncode == 0
        assert process.stop() == 0  # a killed `up` would leave its registry
