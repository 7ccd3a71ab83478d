"""Operating systems of a few bytes in a node's folder of machine images, without touching the shared folder.

A new folder of the parts of nodes links to those that set-up made; only its folder of images is a copy, with more
files. `MachineImage`s name those by `source.file`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tarmac.runtimes.parts import PartMissing, find_machine_parts, parts_folder
from tests.support.bootsector import Behaviour, boot_sector

BYTES = 1 << 20


def guest(behaviour: Behaviour, says: str) -> bytes:
    """A disk that boots."""
    return boot_sector(behaviour, says).ljust(BYTES, b"\0")


def qcow2(content: bytes) -> bytes:
    """The same disk as a qcow2; nothing where QEMU is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        raw, packed = Path(folder) / "raw", Path(folder) / "qcow2"
        raw.write_bytes(content)
        command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(packed)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=30)
        except FileNotFoundError:
            return b""
        return packed.read_bytes()


@contextmanager
def more_images(folder: Path, files: Mapping[str, bytes]) -> Generator[None]:
    """Nodes that are started inside have these files too. Nothing changes where machines cannot run."""
    try:
        images = find_machine_parts().images
    except PartMissing:  # tests that need the files skip
        yield
        return
    folder.mkdir()
    for each in parts_folder().iterdir():
        if each.name != images.name:
            (folder / each.name).symlink_to(each.resolve())
    (folder / images.name).mkdir()
    for each in images.iterdir():  # a link would not be taken for an image
        _place(each, folder / images.name / each.name)
    for name, content in files.items():
        (folder / images.name / name).write_bytes(content)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TARMAC_NODE_PARTS", str(folder))
        yield


def machine_image(name: str, file: str, content: bytes, **more: Any) -> dict[str, Any]:
    """The `source.file` of such a file."""
    spec = {"size": "1Gi", "format": "raw", "source": {"file": file}, "checksum": checksum(content), **more}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "MachineImage",
        "metadata": {"name": name},
        "spec": spec,
    }


def checksum(content: bytes) -> str:
    """The digest of a file, as the catalogue writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _place(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        target.write_bytes(source.read_bytes())
