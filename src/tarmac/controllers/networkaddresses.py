"""Addresses of one network: the number of holders of each, and the free addresses of its subnets.

A subnet's pool is built when an address of it is first requested. It needs the addresses already held in the subnet, so
held addresses are kept sorted: a network may have 100,000 of them, in 1,000 subnets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter

from tarmac.base.ipnumbers import address_text, packed_address
from tarmac.decide.addresses import SubnetPool


class NetworkAddresses:
    """The addresses of one network, without prefix lengths.

    Strings that are not addresses are counted but block no pool.
    """

    def __init__(self) -> None:
        self._holders = Counter[bytes]()
        self._ordered: dict[int, list[bytes]] = {4: [], 16: []}  # held addresses, sorted, by their length in bytes
        # Keys: (address bits, host bits), of which there are few; then the network bits as a number.
        self._pools: dict[tuple[int, int], dict[int, SubnetPool]] = {}

    @property
    def held(self) -> bool:
        """True if any address is held."""
        return bool(self._holders)

    def hold(self, address: str) -> None:
        """Add one holder of the address."""
        packed = _packed(address)
        self._holders[packed] += 1
        # Further holders are only counted: otherwise the first release would free an address that is still held.
        if self._holders[packed] == 1 and (ordered := self._ordered.get(len(packed))) is not None:
            insort(ordered, packed)
            for pool in self._around(packed):
                if (taken := pool.take(address)) is not None:
                    self.put(taken[1])

    def release(self, address: str) -> None:
        """Remove one holder of the address; without holders it becomes free."""
        packed = _packed(address)
        self._holders[packed] -= 1
        # Two objects may hold one address, such as an Instance and its slowly ending Pod: free only without either.
        if self._holders[packed] > 0:
            return
        del self._holders[packed]
        if (ordered := self._ordered.get(len(packed))) is not None:
            del ordered[bisect_left(ordered, packed)]
            for pool in self._around(packed):
                self.put(pool.release(address))

    def pool(self, subnet: str) -> SubnetPool:
        """Return the pool of a subnet's free addresses, building it at first use."""
        address, _, length = subnet.partition("/")
        for known in self._around(packed_address(address)):
            if known.subnet.prefixlen == int(length):
                return known
        made = self._build_pool(subnet)
        self.put(made)
        return made

    def put(self, pool: SubnetPool) -> None:
        """Store the pool in place of its subnet's previous one."""
        bits, length = pool.subnet.max_prefixlen, pool.subnet.prefixlen
        place = int(pool.subnet.network_address) >> bits - length
        self._pools.setdefault((bits, bits - length), {})[place] = pool

    def _build_pool(self, subnet: str) -> SubnetPool:
        pool = SubnetPool.of(subnet)
        first, last = pool.subnet.network_address.packed, pool.subnet.broadcast_address.packed
        ordered = self._ordered[len(first)]
        inside = ordered[bisect_left(ordered, first) : bisect_right(ordered, last)]
        return SubnetPool.of(subnet, map(address_text, inside))

    def _around(self, packed: bytes) -> list[SubnetPool]:
        """Return the pools of all subnets that contain an address."""
        bits, number = len(packed) * 8, int.from_bytes(packed)
        found = (pools.get(number >> hosts) for (size, hosts), pools in self._pools.items() if size == bits)
        return [pool for pool in found if pool is not None]


def _packed(address: str) -> bytes:
    """Return the packed address. Any other string gives bytes whose length is no address length."""
    try:
        return packed_address(address)
    except OSError:
        return b"this is no address: " + address.encode()
