"""Serial numbers of disks, by which a guest tells them apart: the device name, cut to fit.

A virtio disk's serial has 20 bytes, and a device name up to 60. If cut names of one machine collide, the last
characters are replaced by a hash; the same names always get the same serials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import count

MAX_SERIAL = 20
SEED_SERIAL = "cidata"
_HASHED = 4


def disk_serials(names: Sequence[str]) -> list[str]:
    """Return the serial of each disk, in the order of their device names. None equals the seed's serial."""
    alike = Counter([SEED_SERIAL, *(name[:MAX_SERIAL] for name in names)])
    taken = {serial for serial, number in alike.items() if number == 1} | {SEED_SERIAL}
    return [name[:MAX_SERIAL] if alike[name[:MAX_SERIAL]] == 1 else _hashed(name, taken) for name in names]


def _hashed(name: str, taken: set[str]) -> str:
    """Return an unused serial and mark it as taken. Hashes of 16 bits may collide, and volumes may have equal names."""
    for attempt in count():
        salt = f"{name}\0{attempt}" if attempt else name
        serial = name[: MAX_SERIAL - _HASHED] + sha256(salt.encode()).hexdigest()[:_HASHED]
        if serial not in taken:
            taken.add(serial)
            return serial
    raise AssertionError("endless")
