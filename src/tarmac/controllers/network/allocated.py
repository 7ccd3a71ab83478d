"""Allocations of all Networks: VNIs and IPv6 ranges, which must be unique, and IPv4 ranges per namespace.

Maintained incrementally as Networks change, so that an allocation does not iterate over all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from tarmac.api.networking.network import NetworkStatus
from tarmac.decide.addresses import FIRST_VNI, vni_numbers


class Allocations:
    """Allocations by the Network's uid."""

    def __init__(self) -> None:
        self.numbers = vni_numbers()
        self.ranges: Counter[str] = Counter()
        self._shared: dict[str, Counter[str]] = {}  # by namespace: IPv4 ranges
        self._vnis: Counter[int] = Counter()
        self._held: dict[str, tuple[int, str, str, str]] = {}

    def shared_ranges(self, namespace: str) -> Collection[str]:
        """Return the IPv4 ranges of a namespace's Networks."""
        return self._shared.get(namespace, ())

    def hold(self, uid: str, status: NetworkStatus, namespace: str = "") -> None:
        """Record a Network's allocations in place of its previous ones."""
        # The old ones first: a Network that keeps its VNI must not be counted twice.
        self.release(uid)
        vni, own, _, shared = self._held[uid] = status.vni, status.ipv6_range, namespace, status.ipv4_range
        if shared:
            self._shared.setdefault(namespace, Counter())[shared] += 1
        self._vnis[vni] += 1
        self.ranges[own] += 1
        self.numbers = self.numbers.holding(vni - FIRST_VNI)

    def release(self, uid: str) -> None:
        """Release all allocations of a Network."""
        vni, own, namespace, shared = self._held.pop(uid, (0, "", "", ""))
        _decrement(self._shared.get(namespace, Counter()), shared)
        if not self._shared.get(namespace, True):
            del self._shared[namespace]
        self._vnis[vni] -= 1
        if self._vnis[vni] <= 0:  # two Networks may have been written with the same VNI
            del self._vnis[vni]
            self.numbers = self.numbers.releasing(vni - FIRST_VNI)
        _decrement(self.ranges, own)


def _decrement(counted: Counter[str], one: str) -> None:
    counted[one] -= 1
    if counted[one] <= 0:
        del counted[one]
