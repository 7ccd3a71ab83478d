"""All documents of a seed, by their names in it.

User-data is the user's, byte for byte. The instance-id is the Instance's: a restart has the same, so cloud-init runs
its first-boot steps once; a replacement on an old disk has a new id and new addresses, so it runs them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.runtimes.qemu.seed.network import GuestNetwork, network_config
from tarmac.runtimes.qemu.seed.scalars import scalar
from tarmac.runtimes.qemu.seed.vendor import GuestDisk, vendor_data

MAX_BYTES = 1 << 20
_NO_USER_DATA = b"#cloud-config\n{}\n"
_MAX_HOST_NAME = 63


class SeedTooLarge(ValueError):
    """The documents do not fit; the message states their size and the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The content of a seed. `user_data` and `network_data` are None where the user gave none."""

    instance_id: str
    name: str
    interfaces: Sequence[AttachedInterface]
    guest_network: GuestNetwork
    disks: Sequence[GuestDisk] = ()
    ssh_keys: str = ""
    user_data: bytes | None = None
    network_data: bytes | None = None


def documents(seed: Seed) -> dict[str, bytes]:
    """Build the documents of the seed, by name. Raises SeedTooLarge."""
    network = seed.network_data
    found = {
        "meta-data": _meta_data(seed).encode(),
        "user-data": seed.user_data or _NO_USER_DATA,
        "network-config": network or network_config(seed.interfaces, seed.guest_network).encode(),
        "vendor-data": vendor_data(seed.disks, seed.ssh_keys).encode(),
    }
    size = sum(map(len, found.values()))
    if size > MAX_BYTES:
        raise SeedTooLarge(f"cloud-init's documents have {size} bytes together, and at most {MAX_BYTES} fit")
    return found


def _meta_data(seed: Seed) -> str:
    host = seed.name[:_MAX_HOST_NAME].rstrip("-.")
    return f"instance-id: {scalar(seed.instance_id)}\nlocal-hostname: {scalar(host)}\n"
