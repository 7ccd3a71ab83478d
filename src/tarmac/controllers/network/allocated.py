"""What Networks have of what no two may have: numbers on the wire, and ranges of IPv6.

It is kept in step with every Network that is seen, so that giving out one more costs no walk over all of them.
"""

from __future__ import annotations

from collections import Counter

from tarmac.api.networking.network import NetworkStatus
from tarmac.decide.addresses import FIRST_VNI, vni_numbers


class Allocated:
    """Holdings by a Network's uid."""

    def __init__(self) -> None:
        self.numbers = vni_numbers()
        self.ranges: Counter[str] = Counter()
        self._vnis: Counter[int] = Counter()
        self._held: dict[str, tuple[int, str]] = {}

    def hold(self, uid: str, status: NetworkStatus) -> None:
        """A Network has these, and what it had before no longer."""
        self.release(uid)
        vni, own = self._held[uid] = status.vni, status.ipv6_range
        self._vnis[vni] += 1
        self.ranges[own] += 1
        self.numbers = self.numbers.holding(vni - FIRST_VNI)

    def release(self, uid: str) -> None:
        """A Network has nothing any more."""
        vni, own = self._held.pop(uid, (0, ""))
        self._vnis[vni] -= 1
        self.ranges[own] -= 1
        if self._vnis[vni] <= 0:  # somebody may have written the same number to two
            del self._vnis[vni]
            self.numbers = self.numbers.releasing(vni - FIRST_VNI)
        if self.ranges[own] <= 0:
            del self.ranges[own]
