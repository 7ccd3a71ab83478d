"""The registry's stored files: usage by namespace, and removal.

docker/registry/v2/repositories/NAMESPACE/NAME/…/sha256/DIGEST/link    a repository has this blob: layer or manifest
docker/registry/v2/repositories/NAMESPACE/NAME/_uploads/ID/data        an upload in progress
docker/registry/v2/blobs/sha256/DI/DIGEST/data                         the blob itself, once for all repositories
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("docker/registry/v2")
_REPOSITORIES = _ROOT / "repositories"
_BLOBS = _ROOT / "blobs" / "sha256"


def usage(images: Path) -> dict[str, int]:
    """Return the bytes of each namespace: each of its blobs once, even if shared, and uploads in progress."""
    return {
        folder.name: sum(_size(_blob(images, digest)) for digest in _digests(folder)) + _uploading(folder)
        for folder in _folders(images / _REPOSITORIES)
    }


def free_bytes(folder: Path) -> int:
    """Return the bytes that may be pushed to the disk of a folder: a twentieth stays free for the store beside it."""
    found = os.statvfs(next(each for each in (folder, *folder.parents) if each.exists()))
    return max(0, (found.f_bavail - found.f_blocks // 20) * found.f_frsize)


def remove_idle_uploads(images: Path, before: float) -> None:
    """Remove uploads whose last byte came before this time: their clients are gone, and they use up the quota.

    A client that comes back is told that its upload is unknown, and begins anew. The registry may run meanwhile.
    """
    for upload in (images / _REPOSITORIES).glob("*/**/_uploads/*"):
        with suppress(FileNotFoundError):  # finished since it was listed
            if max(each.stat().st_mtime for each in (upload, *upload.iterdir())) < before:
                shutil.rmtree(upload, ignore_errors=True)


def remove(images: Path, namespaces: Collection[str]) -> None:
    """Remove repositories, and blobs that no other repository has. No push may happen meanwhile.

    Repositories go first: blobs left by a crash are found by the next removal.
    """
    for namespace in namespaces:
        shutil.rmtree(images / _REPOSITORIES / namespace, ignore_errors=True)
    wanted = set(_digests(images / _REPOSITORIES))
    for group in _folders(images / _BLOBS):
        for blob in _folders(group):
            if blob.name not in wanted:
                shutil.rmtree(blob, ignore_errors=True)


def _digests(folder: Path) -> set[str]:
    """Return the blobs of repositories below a directory."""
    return {Path(path).name for path, _, files in os.walk(folder) if "link" in files and _is_digest(Path(path).name)}


def _is_digest(name: str) -> bool:
    return len(name) == 64 and name.isalnum()  # the link of a tag is in a directory called `current`


def _uploading(folder: Path) -> int:
    return sum(_size(Path(path) / "data") for path, _, files in os.walk(folder) if "data" in files)


def _blob(images: Path, digest: str) -> Path:
    return images / _BLOBS / digest[:2] / digest / "data"


def _folders(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from [each for each in folder.iterdir() if each.is_dir()]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
