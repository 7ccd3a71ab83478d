"""What Networks have of what no two may have, numbers on the wire and ranges of IPv6, and their ranges of IPv4.

It is kept in step with every Network that is seen, so that giving out one more costs no walk over all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from tarmac.api.networking.network import NetworkStatus
from tarmac.decide.addresses import FIRST_VNI, vni_numbers


class Allocated:
    """Holdings by a Network's uid."""

    def __init__(self) -> None:
        self.numbers = vni_numbers()
        self.ranges: Counter[str] = Counter()
        self._shared: dict[str, Counter[str]] = {}  # by namespace: ranges of IPv4
        self._vnis: Counter[int] = Counter()
        self._held: dict[str, tuple[int, str, str, str]] = {}

    def together(self, namespace: str) -> Collection[str]:
        """The ranges of IPv4 that Networks of a namespace have."""
        return self._shared.get(namespace, ())

    def hold(self, uid: str, status: NetworkStatus, namespace: str = "") -> None:
        """A Network has these, and what it had before no longer."""
        self.release(uid)
        vni, own, _, shared = self._held[uid] = status.vni, status.ipv6_range, namespace, status.ipv4_range
        if shared:
            self._shared.setdefault(namespace, Counter())[shared] += 1
        self._vnis[vni] += 1
        self.ranges[own] += 1
        self.numbers = self.numbers.holding(vni - FIRST_VNI)

    def release(self, uid: str) -> None:
        """A Network has nothing any more."""
        vni, own, namespace, shared = self._held.pop(uid, (0, "", "", ""))
        _less(self._shared.get(namespace, Counter()), shared)
        if not self._shared.get(namespace, True):
            del self._shared[namespace]
        self._vnis[vni] -= 1
        if self._vnis[vni] <= 0:  # somebody may have written the same number to two
            del self._vnis[vni]
            self.numbers = self.numbers.releasing(vni - FIRST_VNI)
        _less(self.ranges, own)


def _less(counted: Counter[str], one: str) -> None:
    counted[one] -= 1
    if counted[one] <= 0:
        del counted[one]
