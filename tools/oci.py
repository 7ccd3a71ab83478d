"""Writes container images as OCI layout tars, the same bytes every time, with nothing but the standard library.

An image is a list of layers, each a list of entries; layers that images share are written the same way and so have
the same digest. `ctr images import` takes the tar as it is, and a registry takes the blobs inside.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True)
class Entry:
    """A file of a layer, or a folder if it has neither content nor link. Paths are relative to the image's root."""

    path: str
    content: bytes | None = None
    mode: int = 0o755
    hard_link: str = ""
    symbolic_link: str = ""


@dataclass(frozen=True)
class PackedLayer:
    """A layer as it is stored in an image: a compressed tar."""

    blob: bytes


@dataclass(frozen=True)
class Image:
    """An image: its name with tag, what is in it, and what it runs."""

    name: str
    layers: Sequence[Sequence[Entry] | PackedLayer]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    working_dir: str = "/"
    user: str = ""
    ports: tuple[int, ...] = ()


def write_image(image: Image, target: Path) -> None:
    """Write the OCI layout of one image as a tar."""
    blobs: dict[str, bytes] = {}
    layers: list[dict[str, object]] = []
    diff_ids: list[str] = []
    for layer in image.layers:
        packed = layer if isinstance(layer, PackedLayer) else pack_layer(layer)
        diff_ids.append(_digest(gzip.decompress(packed.blob)))
        layers.append(_blob(blobs, f"{_TYPE}.layer.v1.tar+gzip", packed.blob))
    config = _blob(blobs, f"{_TYPE}.config.v1+json", _json(_config(image, diff_ids)))
    document = {"schemaVersion": 2, "mediaType": f"{_TYPE}.manifest.v1+json", "config": config, "layers": layers}
    manifest = _blob(blobs, f"{_TYPE}.manifest.v1+json", _json(document))
    manifest["annotations"] = {"io.containerd.image.name": image.name}
    index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [manifest]}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        **{f"blobs/{digest.replace(':', '/')}": blob for digest, blob in sorted(blobs.items())},
    }
    target.write_bytes(_tar((path, Entry(path, content, 0o644)) for path, content in files.items()))


def pack_layer(entries: Iterable[Entry]) -> PackedLayer:
    """Pack the files of a layer."""
    return PackedLayer(gzip.compress(_tar((entry.path, entry) for entry in entries), mtime=0))


def _config(image: Image, diff_ids: list[str]) -> dict[str, object]:
    settings: dict[str, object] = {
        "Entrypoint": list(image.entrypoint) or None,
        "Cmd": list(image.command) or None,
        "Env": [f"{name}={value}" for name, value in image.environment.items()],
        "WorkingDir": image.working_dir,
        "User": image.user,
        "ExposedPorts": {f"{port}/tcp": dict[str, str]() for port in image.ports},
    }
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {name: value for name, value in settings.items() if value},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }


def _blob(blobs: dict[str, bytes], media_type: str, content: bytes) -> dict[str, object]:
    """Keep the blob; its descriptor."""
    digest = _digest(content)
    blobs[digest] = content
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _tar(entries: Iterable[tuple[str, Entry]]) -> bytes:
    """Owner, group and times are all zero, so that the same files are the same bytes."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, entry in entries:
            info = tarfile.TarInfo(path)
            info.mode = entry.mode  # also of hard links: unpacking applies it to what they point at
            if entry.hard_link:
                info.type, info.linkname = tarfile.LNKTYPE, entry.hard_link
            elif entry.symbolic_link:
                info.type, info.linkname = tarfile.SYMTYPE, entry.symbolic_link
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.content)
            tar.addfile(info, None if entry.content is None else io.BytesIO(entry.content))
    return output.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
