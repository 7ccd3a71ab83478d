"""Images are the same bytes every time, and valid for registries and runtimes."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from tools.oci import Entry, Image, write_image

_LAYER = [
    Entry("bin"),
    Entry("bin/tool", b"#!/bin/sh\n"),
    Entry("bin/same", hard_link="bin/tool"),
    Entry("bin/other", symbolic_link="tool"),
    Entry("tmp", mode=0o1777),
]
_IMAGE = Image("registry.test/x:1", [_LAYER, [Entry("etc/y", b"z", 0o644)]], command=("tool",), environment={"A": "b"})


def _files(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {each.name: file.read() for each in archive.getmembers() if (file := archive.extractfile(each))}


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    write_image(_IMAGE, tmp_path / "1")
    write_image(_IMAGE, tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_every_blob_is_named_by_its_digest(tmp_path: Path) -> None:
    write_image(_IMAGE, tmp_path / "image")
    blobs = {name: content for name, content in _files(tmp_path / "image").items() if name.startswith("blobs/")}
    assert len(blobs) == 4  # two layers, the configuration, the manifest
    for name, content in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def test_the_index_names_the_image_and_leads_to_its_configuration(tmp_path: Path) -> None:
    write_image(_IMAGE, tmp_path / "image")
    files = _files(tmp_path / "image")
    [descriptor] = json.loads(files["index.json"])["manifests"]
    assert descriptor["annotations"] == {"io.containerd.image.name": "registry.test/x:1"}
    manifest = json.loads(files[f"blobs/{descriptor['digest'].replace(':', '/')}"])
    config = json.loads(files[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert config["config"] == {"Cmd": ["tool"], "Env": ["A=b"], "WorkingDir": "/"}
    assert len(config["rootfs"]["diff_ids"]) == len(manifest["layers"]) == 2


def test_links_folders_and_modes_are_kept(tmp_path: Path) -> None:
    write_image(Image("x.test/x:1", [_LAYER]), tmp_path / "image")
    files = _files(tmp_path / "image")
    layer = max((content for name, content in files.items() if name.startswith("blobs/")), key=_is_gzip)
    (tmp_path / "layer").write_bytes(layer)
    with tarfile.open(tmp_path / "layer") as archive:
        found = {each.name: each for each in archive.getmembers()}
    assert found["tmp"].isdir()
    assert found["tmp"].mode == 0o1777
    assert (found["bin/same"].linkname, found["bin/same"].mode) == ("bin/tool", 0o755)
    assert found["bin/other"].issym()
    assert {(each.uid, each.gid, each.mtime) for each in found.values()} == {(0, 0, 0)}


def _is_gzip(content: bytes) -> bool:
    return content.startswith(b"\x1f\x8b")
