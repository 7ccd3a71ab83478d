"""The vendor-data document: the platform's configuration of the guest. The user's own user-data takes precedence.

It has two parts. A boothook, which runs at every boot and cannot be replaced by user-data, creates the names of the
disks under /dev/disk/by-id. A cloud-config, with lists that user-data may replace, has users, their keys, and mounts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tarmac.runtimes.qemu.seed.scalars import flow_list, flow_map, quoted, scalar

_BOUNDARY = "==tarmac-vendor-data=="
_RULES = "/run/udev/rules.d/61-datumcloud.rules"
_SUDO = "ALL=(ALL) NOPASSWD:ALL"


@dataclass(frozen=True, slots=True)
class GuestDisk:
    """A disk in the guest: its device name, its serial, and its mount path, if any."""

    name: str
    serial: str
    mount_path: str = ""
    filesystem: str = "ext4"
    read_only: bool = False


def vendor_data(disks: Sequence[GuestDisk], ssh_keys: str) -> str:
    """Build the document. `ssh_keys` are lines of `user:authorized key`."""
    parts = (("text/cloud-boothook", _boothook(disks)), ("text/cloud-config", _cloud_config(disks, ssh_keys)))
    lines = [f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', "MIME-Version: 1.0", ""]
    for kind, text in parts:
        lines += [f"--{_BOUNDARY}", f'Content-Type: {kind}; charset="us-ascii"', "MIME-Version: 1.0", "", *text]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])


def _boothook(disks: Sequence[GuestDisk]) -> Iterator[str]:
    yield from ("#cloud-boothook", "#!/bin/sh", "mkdir -p /run/udev/rules.d", f"cat > {_RULES} <<'END'")
    for disk in disks:
        whole = f'KERNEL=="vd*[!0-9]", ENV{{DEVTYPE}}=="disk", ATTR{{serial}}=="{disk.serial}"'
        part = f'KERNEL=="vd*[0-9]", ENV{{DEVTYPE}}=="partition", ATTRS{{serial}}=="{disk.serial}"'
        yield f'{whole}, SYMLINK+="disk/by-id/datumcloud-{disk.name}"'
        yield f'{part}, SYMLINK+="disk/by-id/datumcloud-{disk.name}-part%n"'
    yield from ("END", "udevadm control --reload")
    yield from ("udevadm trigger --subsystem-match=block --action=change", "udevadm settle")


def _cloud_config(disks: Sequence[GuestDisk], ssh_keys: str) -> Iterator[str]:
    users = _users(ssh_keys)
    yield "#cloud-config"
    if users:
        yield f"users: {flow_list(['default', *(_user(name, keys) for name, keys in users.items())])}"
    if "root" in users:
        yield "disable_root: false"
    mounts = [_mount(disk) for disk in disks if disk.mount_path]
    if mounts:
        yield f"mounts: {flow_list(mounts)}"
    yield f"growpart: {flow_map({'mode': 'auto', 'devices': flow_list([quoted('/')])})}"


def _users(ssh_keys: str) -> dict[str, list[str]]:
    """Return the keys by user, in order of appearance."""
    found: dict[str, list[str]] = {}
    for line in ssh_keys.strip().split("\n"):
        user, colon, key = line.strip().partition(":")
        if colon:
            found.setdefault(user, []).append(key.strip())
    return found


def _user(name: str, keys: Sequence[str]) -> str:
    return flow_map(
        {
            "name": scalar(name),
            "ssh_authorized_keys": flow_list(map(quoted, keys)),
            "sudo": flow_list([quoted(_SUDO)]),
            "shell": "/bin/bash",
            "lock_passwd": "true",
        }
    )


def _mount(disk: GuestDisk) -> str:
    device = f"/dev/disk/by-id/virtio-{disk.serial}"
    options = "ro,nofail" if disk.read_only else "defaults,nofail"
    return flow_list([scalar(device), scalar(disk.mount_path), scalar(disk.filesystem), quoted(options)])
