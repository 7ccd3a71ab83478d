"""The container image of the controllers: the same bytes each time, without privileged files, and it runs."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools import image
from tools.package import build

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"), "bookworm")


@pytest.fixture(scope="module")
def archive(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image.build(tmp_path_factory.mktemp("image"), package)


def blob(archive: Path, descriptor: dict[str, Any]) -> bytes:
    return content(archive, f"blobs/{descriptor['digest'].replace(':', '/')}")


def content(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as opened:
        file = opened.extractfile(name)
        assert file is not None, name
        return file.read()


def manifest(archive: Path) -> dict[str, Any]:
    [found] = json.loads(content(archive, "index.json"))["manifests"]
    assert found["annotations"] == {"io.containerd.image.name": image.NAME}
    return json.loads(blob(archive, found))


def layers(archive: Path) -> list[tarfile.TarFile]:
    return [tarfile.open(fileobj=io.BytesIO(blob(archive, each))) for each in manifest(archive)["layers"]]


def test_two_builds_of_the_image_are_the_same_bytes(archive: Path, package: Path, tmp_path: Path) -> None:
    assert image.build(tmp_path, package).read_bytes() == archive.read_bytes()


def test_the_image_starts_the_controllers_as_a_user_without_rights(archive: Path) -> None:
    config = json.loads(blob(archive, manifest(archive)["config"]))["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == (image.USER, ["/usr/bin/tarmac"], ["controllers"])


def test_no_file_of_the_image_gives_rights_or_names_the_machine_of_the_build(archive: Path) -> None:
    members = [each for layer in layers(archive) for each in layer.getmembers()]
    assert {(each.uid, each.gid, each.mtime) for each in members} == {(0, 0, 0)}
    assert not [
        each.name for each in members if each.mode & 0o6000 or not (each.isreg() or each.isdir() or each.issym())
    ]
    names = {each.name for each in members}
    assert not names & {"etc/hostname", "etc/machine-id", "etc/resolv.conf", "etc/apt/sources.list"}
    assert not [name for name in names if "__pycache__" in name]
    assert not [name for name in names if name.startswith("opt/tarmac/parts")], "programs of nodes"


def test_the_program_runs_from_the_files_of_the_image(archive: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # the root of a user without rights
    for each in manifest(archive)["layers"]:
        subprocess.run(["tar", "-xz", "-C", str(tmp_path)], input=blob(archive, each), check=True)
    command = [
        "/usr/sbin/chroot",
        f"--userspec={image.USER}:{image.USER}",
        str(tmp_path),
        "/usr/bin/tarmac",
        "controllers",
    ]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, env=image.ENVIRONMENT)
    assert "--leader-elect" in shown.stdout
