"""The addresses of one network: how many hold each, and which of them are free in its subnets.

A subnet's pool is made when somebody first wants an address of it. It then has to know which of its addresses are held
already, so those are kept in order: a network may have a hundred thousand of them, in a thousand subnets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter

from tarmac.base.ipnumbers import address_text, packed_address
from tarmac.decide.addresses import Pool


class NetworkAddresses:
    """Those of one network. Addresses come without prefix lengths; what is none is in nobody's way."""

    def __init__(self) -> None:
        self._holders = Counter[bytes]()
        self._ordered: dict[int, list[bytes]] = {4: [], 16: []}  # those that are held, by their length in bytes
        # By the length of addresses in bits and how many of those tell hosts apart, which are few; then by the others.
        self._pools: dict[tuple[int, int], dict[int, Pool]] = {}

    @property
    def held(self) -> bool:
        """Whether anybody holds any."""
        return bool(self._holders)

    def hold(self, address: str) -> None:
        """One more holds it."""
        packed = _packed(address)
        self._holders[packed] += 1
        if self._holders[packed] == 1 and (ordered := self._ordered.get(len(packed))) is not None:
            insort(ordered, packed)
            for pool in self._around(packed):
                if (taken := pool.take(address)) is not None:
                    self.put(taken[1])

    def release(self, address: str) -> None:
        """One of those who hold it does no longer."""
        packed = _packed(address)
        self._holders[packed] -= 1
        if self._holders[packed] > 0:
            return
        del self._holders[packed]
        if (ordered := self._ordered.get(len(packed))) is not None:
            del ordered[bisect_left(ordered, packed)]
            for pool in self._around(packed):
                self.put(pool.release(address))

    def pool(self, subnet: str) -> Pool:
        """What is free in a subnet."""
        address, _, length = subnet.partition("/")
        for known in self._around(packed_address(address)):
            if known.subnet.prefixlen == int(length):
                return known
        made = self._made(subnet)
        self.put(made)
        return made

    def put(self, pool: Pool) -> None:
        """Have it, in place of what was known of its subnet."""
        bits, length = pool.subnet.max_prefixlen, pool.subnet.prefixlen
        place = int(pool.subnet.network_address) >> bits - length
        self._pools.setdefault((bits, bits - length), {})[place] = pool

    def _made(self, subnet: str) -> Pool:
        pool = Pool.of(subnet)
        first, last = pool.subnet.network_address.packed, pool.subnet.broadcast_address.packed
        ordered = self._ordered[len(first)]
        inside = ordered[bisect_left(ordered, first) : bisect_right(ordered, last)]
        return Pool.of(subnet, map(address_text, inside))

    def _around(self, packed: bytes) -> list[Pool]:
        """The pools of subnets that an address is in."""
        bits, number = len(packed) * 8, int.from_bytes(packed)
        found = (pools.get(number >> hosts) for (size, hosts), pools in self._pools.items() if size == bits)
        return [pool for pool in found if pool is not None]


def _packed(address: str) -> bytes:
    """As many bytes as an address has; of something else, so many that it is none."""
    try:
        return packed_address(address)
    except OSError:
        return b"this is no address: " + address.encode()
