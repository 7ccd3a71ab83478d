"""How a guest tells its disks apart: by the serial of each, which is its device name as far as that fits.

A virtio disk's serial has 20 bytes, and a device name up to 60. Names of one machine that are the same when cut get the
end of a hash instead of their last characters; the same names always get the same serials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import count

LONGEST = 20
SEED_SERIAL = "cidata"
_HASHED = 4


def disk_serials(names: Sequence[str]) -> list[str]:
    """The serial of each disk of a machine, in the order of their device names. The seed's is nobody else's."""
    alike = Counter([SEED_SERIAL, *(name[:LONGEST] for name in names)])
    taken = {serial for serial, number in alike.items() if number == 1} | {SEED_SERIAL}
    return [name[:LONGEST] if alike[name[:LONGEST]] == 1 else _hashed(name, taken) for name in names]


def _hashed(name: str, taken: set[str]) -> str:
    """A serial that nobody has, which is then taken. Two of 16 bits may agree, and two volumes may have one name."""
    for attempt in count():
        salt = f"{name}\0{attempt}" if attempt else name
        serial = name[: LONGEST - _HASHED] + sha256(salt.encode()).hexdigest()[:_HASHED]
        if serial not in taken:
            taken.add(serial)
            return serial
    raise AssertionError("endless")
