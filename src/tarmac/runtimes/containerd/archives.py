"""Lists the images in an archive, under the names that containerd will give them.

Two formats: an OCI layout (`index.json`, names in annotations) and the output of `docker save` (`manifest.json`, names
in `RepoTags`); many tools write both at once. Only these two small files are read from the archive.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, Final, cast

_FULL: Final = "io.containerd.image.name"
_SHORT: Final = "org.opencontainers.image.ref.name"
_MAX_DOCUMENT: Final = 4 << 20  # maximum size of a file that lists images


class BadArchive(Exception):
    """Not an archive of images, or one that does not name them."""


def image_names(path: Path) -> list[str]:
    """Return the full names of the images in an archive; empty when none has one. Raises BadArchive, OSError."""
    try:
        with tarfile.open(path) as archive:
            documents = {name: _document(archive, name) for name in ("index.json", "manifest.json")}
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise BadArchive(f"{path} is no archive of images: {error}") from error
    if all(document is None for document in documents.values()):
        raise BadArchive(f"{path} is no archive of images: it has neither index.json (OCI) nor manifest.json (docker)")
    found = [*_in_index(documents["index.json"]), *_in_manifest(documents["manifest.json"])]
    return list(dict.fromkeys(found))


def full_name(name: str) -> str:
    """Return the name in containerd's form: `app` is docker.io/library/app:latest."""
    first, slash, _ = name.partition("/")
    registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    if not registry:
        name = f"docker.io/{name}" if slash else f"docker.io/library/{name}"
    tagged = ":" in name.rpartition("/")[2] or "@" in name
    return name if tagged else f"{name}:latest"


def _document(archive: tarfile.TarFile, name: str) -> Any:
    member = next((each for each in (name, f"./{name}") if each in archive.getnames()), None)
    file = archive.extractfile(member) if member is not None else None
    if file is None:
        return None
    content = file.read(_MAX_DOCUMENT + 1)
    if len(content) > _MAX_DOCUMENT:
        raise ValueError(f"{name} is larger than {_MAX_DOCUMENT >> 20} MiB")
    return json.loads(content)


def _in_index(document: Any) -> list[str]:
    """Return names from an OCI index. Some tools use the short name as a mere tag; those are ignored."""
    found: list[str] = []
    manifests = cast("dict[str, Any]", document).get("manifests") if isinstance(document, dict) else None
    for manifest in _maps(manifests):
        annotations = manifest.get("annotations") or {}
        name = annotations.get(_FULL) or ""
        short = annotations.get(_SHORT) or ""
        if name or "/" in short:
            found.append(str(name or short))
    return found


def _in_manifest(document: Any) -> list[str]:
    return [full_name(str(tag)) for image in _maps(document) for tag in image.get("RepoTags") or ()]


def _maps(value: Any) -> list[dict[str, Any]]:
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in entries if isinstance(each, dict)]
