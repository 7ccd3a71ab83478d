"""Builds the cloud-init seed of a guest from its pod."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tarmac.api.compute.names import ANNOTATION_CLOUD_INIT, ANNOTATION_MOUNTS, ANNOTATION_SSH_KEYS
from tarmac.api.compute.validation.machines import CLOUD_INIT_VOLUME, OWN_MOUNTS
from tarmac.runtimes.interface.errors import RuntimeRefused
from tarmac.runtimes.qemu.records import MachineRecord, SandboxRecord
from tarmac.runtimes.qemu.seed.documents import MAX_BYTES, Seed
from tarmac.runtimes.qemu.seed.network import GuestNetwork
from tarmac.runtimes.qemu.seed.vendor import GuestDisk

_CLOUD_INIT = f"{OWN_MOUNTS}/cloud-init"
_T = TypeVar("_T")


class _CloudInit(msgspec.Struct, rename="camel"):
    user_data: str | None = None
    network_data: str | None = None


def volume_folders(record: MachineRecord) -> list[tuple[str, str]]:
    """Return the volumes with files that the guest gets as disks: path in the guest, directory on the host."""
    return [each for each in record.mounts if each[0] != _CLOUD_INIT]


def seed_of(
    record: MachineRecord,
    sandbox: SandboxRecord,
    serials: Sequence[str],
    router: str,
) -> Seed:
    """Return the content of the seed. Raises RuntimeRefused, OSError."""
    notes = sandbox.annotations
    given = _cloud_init(notes, record)
    mounts = _decoded(notes, ANNOTATION_MOUNTS, dict[str, str], {})
    disks = [
        GuestDisk(each.name, serial, mounts.get(each.volume, ""), read_only=each.read_only)
        for serial, each in zip(serials, record.disks, strict=False)
    ]
    disks += [
        GuestDisk(Path(folder).name, serial, _mount_path(path), "iso9660", read_only=True)
        for serial, (path, folder) in zip(serials[len(record.disks) :], volume_folders(record), strict=True)
    ]
    return Seed(
        instance_id=record.uuid,
        name=sandbox.name,
        interfaces=sandbox.interfaces,
        guest_network=GuestNetwork(router, tuple(sandbox.dns_servers), tuple(sandbox.dns_searches)),
        disks=disks,
        ssh_keys=notes.get(ANNOTATION_SSH_KEYS, ""),
        user_data=given.user_data.encode() if given.user_data is not None else None,
        network_data=given.network_data.encode() if given.network_data is not None else None,
    )


def _cloud_init(notes: dict[str, str], record: MachineRecord) -> _CloudInit:
    """Return user-data and network-data from the mounted Secret, else from the pod's annotation."""
    folder = next((Path(host) for path, host in record.mounts if path == _CLOUD_INIT), None)
    if folder is None:
        return _decoded(notes, ANNOTATION_CLOUD_INIT, _CloudInit, _CloudInit())
    keys = {each: _key(folder / each) for each in ("userData", "networkData")}
    return _CloudInit(keys["userData"], keys["networkData"])


def _key(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) > MAX_BYTES:
        raise RuntimeRefused(f"key {file.name} of the Secret in volume {CLOUD_INIT_VOLUME} has over {MAX_BYTES} bytes")
    return content.decode(errors="replace")


def _decoded(notes: dict[str, str], annotation: str, kind: type[_T], absent: _T) -> _T:
    if annotation not in notes:
        return absent
    try:
        return msgspec.json.decode(notes[annotation], type=kind)
    except msgspec.MsgspecError as error:
        raise RuntimeRefused(f"the annotation {annotation} cannot be read: {error}") from error


def _mount_path(path: str) -> str:
    """Return the mount path of a volume in the guest; empty when it is used as a device only."""
    return "" if path.startswith(f"{OWN_MOUNTS}/") else path
