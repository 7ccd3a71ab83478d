"""Image archives of every common tool are read, and invalid ones are rejected with a message."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tarmac.runtimes.containerd.archives import BadArchive, full_name, image_names


def archive(folder: Path, **documents: Any) -> Path:
    path = folder / "app.tar"
    with tarfile.open(path, "w") as tar:
        for name, document in documents.items():
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            info = tarfile.TarInfo(f"{name}.json")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("annotations", "names"),
    [
        ({"io.containerd.image.name": "registry.local/app:1"}, ["registry.local/app:1"]),
        ({"org.opencontainers.image.ref.name": "registry.local/app:1"}, ["registry.local/app:1"]),
        ({"org.opencontainers.image.ref.name": "1"}, []),  # a mere tag
        (None, []),
    ],
)
def test_an_oci_layout_names_images_in_annotations(tmp_path: Path, annotations: Any, names: list[str]) -> None:
    assert image_names(archive(tmp_path, index={"manifests": [{"annotations": annotations}]})) == names


def test_a_docker_archive_names_them_by_tags_and_both_shapes_count_once(tmp_path: Path) -> None:
    index = {"manifests": [{"annotations": {"io.containerd.image.name": "docker.io/library/app:1"}}]}
    assert image_names(archive(tmp_path, index=index, manifest=[{"RepoTags": ["app:1", "me/app:2"]}])) == [
        "docker.io/library/app:1",
        "docker.io/me/app:2",
    ]
    assert image_names(archive(tmp_path, manifest=[{"RepoTags": None}])) == []


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("app", "docker.io/library/app:latest"),
        ("me/app:1", "docker.io/me/app:1"),
        ("localhost/app:1", "localhost/app:1"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("registry.local/a/b@sha256:12", "registry.local/a/b@sha256:12"),
    ],
)
def test_names_become_those_that_containerd_knows(short: str, full: str) -> None:
    assert full_name(short) == full


@pytest.mark.parametrize(
    "documents", [{}, {"other": {}}, {"index": b"{"}, {"index": b"\xff"}, {"index": b"1" * (5 << 20)}]
)
def test_a_file_that_is_no_image_archive_is_refused(tmp_path: Path, documents: Any) -> None:
    with pytest.raises(BadArchive, match=r"app\.tar is no archive of images"):
        image_names(archive(tmp_path, **documents))


@pytest.mark.parametrize("document", [[], 1, {"manifests": 1}, {"manifests": [1]}, {"manifests": None}, None])
def test_a_list_of_nothing_names_nothing(tmp_path: Path, document: Any) -> None:
    assert image_names(archive(tmp_path, index=document, manifest=[{"RepoTags": ["a:1"]}])) == ["docker.io/library/a:1"]


def test_a_file_that_is_no_tar_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.tar"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(BadArchive):
        image_names(path)
