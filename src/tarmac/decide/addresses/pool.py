"""Address allocator of one subnet.

The first address is the network address, the second is the gateway, and the last of an IPv4 subnet is the broadcast
address; none of them is assigned. Of a subnet larger than 65,536 addresses only the lowest 65,536 are assigned, which
bounds memory; addresses beyond them may be in use and are not tracked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from tarmac.base.ipnumbers import packed_address
from tarmac.decide.addresses.numbers import Numbers

_FIRST_OFFSET: Final = 2
_WINDOW: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Pool:
    """A subnet and its addresses in use."""

    subnet: IPv4Network | IPv6Network
    first: int  # the first assignable address
    numbers: Numbers

    @staticmethod
    def of(subnet: str, taken: Iterable[str] = ()) -> Pool:
        """Return the pool of a subnet with these addresses in use; the prefix length of an address is ignored."""
        network = ip_network(subnet)
        last = 1 if network.version == 4 else 0
        size = max(min(network.num_addresses, _WINDOW) - _FIRST_OFFSET - last, 0)
        pool = Pool(network, int(network.network_address) + _FIRST_OFFSET, Numbers(size))
        return replace(pool, numbers=Numbers.of(size, map(pool._number, taken)))

    @property
    def gateway(self) -> str:
        """The gateway of the subnet."""
        return str(self.subnet.network_address + 1)

    @property
    def free(self) -> int:
        """The count of free addresses."""
        return self.numbers.free

    def is_free(self, address: str) -> bool:
        """Return True if the address is assignable and free."""
        return self.numbers.is_free(self._number(address))

    def take(self, address: str = "") -> tuple[str, Pool] | None:
        """Take the given address or the lowest free one; return it with the remaining pool. None if it is not free."""
        number = self._number(address) if address else self.numbers.lowest()
        if number is None or not self.numbers.is_free(number):
            return None
        found = self.subnet.network_address + (_FIRST_OFFSET + number)
        return str(found), replace(self, numbers=self.numbers.holding(number))

    def release(self, address: str) -> Pool:
        """Return the pool with the address released."""
        return replace(self, numbers=self.numbers.releasing(self._number(address)))

    def _number(self, address: str) -> int:
        """Return the index of an address among the assignable ones; out of range if it is not assignable."""
        try:
            packed = packed_address(address.partition("/")[0])
        except OSError:
            return -1
        return int.from_bytes(packed) - self.first if len(packed) * 8 == self.subnet.max_prefixlen else -1
