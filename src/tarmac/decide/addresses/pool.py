"""The addresses of one subnet.

The first address names the subnet, the second is its gateway, and the last of an IPv4 subnet is its broadcast address;
none of them is handed out. Of a subnet larger than 65,536 addresses only the lowest so many are handed out, which
bounds what is kept for it; an address outside them may be in use without anybody being in its way.
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
    """A subnet and which of its addresses are in use."""

    subnet: IPv4Network | IPv6Network
    first: int  # address that is handed out
    numbers: Numbers

    @staticmethod
    def of(subnet: str, taken: Iterable[str] = ()) -> Pool:
        """The pool of a subnet with these addresses in use; a prefix length behind an address is ignored."""
        network = ip_network(subnet)
        last = 1 if network.version == 4 else 0
        size = max(min(network.num_addresses, _WINDOW) - _FIRST_OFFSET - last, 0)
        pool = Pool(network, int(network.network_address) + _FIRST_OFFSET, Numbers(size))
        return replace(pool, numbers=Numbers.of(size, map(pool._number, taken)))

    @property
    def gateway(self) -> str:
        """The next hop of everything in the subnet."""
        return str(self.subnet.network_address + 1)

    @property
    def free(self) -> int:
        """How many addresses are left."""
        return self.numbers.free

    def is_free(self, address: str) -> bool:
        """Whether the address is one that could be handed out now."""
        return self.numbers.is_free(self._number(address))

    def take(self, address: str = "") -> tuple[str, Pool] | None:
        """An address and the pool without it: the one asked for or the lowest; None when that is not free."""
        number = self._number(address) if address else self.numbers.lowest()
        if number is None or not self.numbers.is_free(number):
            return None
        found = self.subnet.network_address + (_FIRST_OFFSET + number)
        return str(found), replace(self, numbers=self.numbers.holding(number))

    def release(self, address: str) -> Pool:
        """The pool with the address free again."""
        return replace(self, numbers=self.numbers.releasing(self._number(address)))

    def _number(self, address: str) -> int:
        """Where the address stands among those that are handed out; negative or too large when it does not."""
        try:
            packed = packed_address(address.partition("/")[0])
        except OSError:
            return -1
        return int.from_bytes(packed) - self.first if len(packed) * 8 == self.subnet.max_prefixlen else -1
