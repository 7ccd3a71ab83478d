"""Joint renewal: one message renews all promises of a voter to a node.

Both ends keep the set of (address, ballot) that the voter has promised to the holder, and a digest of it. A `Renewal`
with the voter's own digest replaces one `Ask` for each member, and `Renewed` one `Grant` for each. Any other digest is
answered with `Unlisted`, and the holder requests each address separately. An address joins by a `Grant` and leaves when
its holder releases it or asks with a different ballot; so the two sets are equal unless a message is in flight, was
lost, or a node has restarted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from tarmac.decide.egress.lease import LASTS, LEASE, majority
from tarmac.decide.egress.lease.messages import Renewal, Renewed, Unlisted

_BITS: Final = 62
_NEVER: Final = float("-inf")


def digest_of(address: str, ballot: int) -> int:
    """Return the digest of one member; the digest of a set is the XOR of its members' digests."""
    made = blake2b(f"{address} {ballot}".encode(), digest_size=8).digest()
    return int.from_bytes(made) >> (64 - _BITS)


class Joint:
    """The promises of one voter to this node."""

    def __init__(self) -> None:
        self.members: dict[str, tuple[int, int]] = {}  # address -> its ballot, and the last nonce before it joined
        self.trusted = False
        """True if the next round may renew jointly: the last one was granted, or each member was requested since."""
        self.granted = _NEVER
        """Send time of the newest granted `Renewal`."""
        self.granted_nonce = 0
        self._digest = 0
        self._nonce = 0
        self._sent: dict[int, tuple[int, float]] = {}  # nonce -> digest, when

    def join(self, address: str, ballot: int) -> None:
        """Add an address that the voter has promised."""
        if address in self.members and self.members[address][0] == ballot:
            return
        self.leave(address)
        self.members[address] = ballot, self._nonce
        self._digest ^= digest_of(address, ballot)

    def leave(self, address: str) -> None:
        """Remove an address from joint renewal."""
        known = self.members.pop(address, None)
        if known is not None:
            self._digest ^= digest_of(address, known[0])

    def sent(self, address: str) -> float:
        """Return the send time of the newest granted joint renewal that included an address.

        A renewal sent before the address joined does not count for it, even if it is answered later.
        """
        known = self.members.get(address)
        return self.granted if known is not None and known[1] < self.granted_nonce else _NEVER

    def ask(self, now: float) -> Renewal:
        """Return a renewal request for all members. `trusted` is False until it is granted."""
        self.trusted = False
        self._nonce += 1
        self._sent = {nonce: sent for nonce, sent in self._sent.items() if now - sent[1] < LEASE}
        self._sent[self._nonce] = self._digest, now
        return Renewal(self._digest, self._nonce)

    def answered(self, answer: Renewed | Unlisted) -> bool:
        """Count a response; return False if it matches no open request. Each request is answered once."""
        digest, sent = self._sent.pop(answer.nonce, (-1, _NEVER))
        if digest != answer.digest:
            return False
        if isinstance(answer, Renewed) and answer.nonce > self.granted_nonce:
            self.trusted, self.granted, self.granted_nonce = True, sent, answer.nonce
        return True


class Joints:
    """The promises of every voter to this node, by voter."""

    def __init__(self) -> None:
        self._by_voter: dict[str, Joint] = {}

    def of(self, voter: str) -> Joint:
        """Return the promises of one voter."""
        return self._by_voter.setdefault(voter, Joint())

    def begin_round(self, reached: Container[str]) -> dict[str, Joint]:
        """Return the joints to renew jointly in this round, by voter, out of those reachable by one message.

        The members of the remaining joints are requested separately, so the next round may renew them jointly again.
        """
        found: dict[str, Joint] = {}
        for voter, joint in self._by_voter.items():
            if voter in reached and joint.members and joint.trusted:
                found[voter] = joint
            else:
                joint.trusted = True
        return found

    def until(self, voters: Iterable[str]) -> float:
        """Return when the joint promises of a majority of these voters expire.

        Valid only for addresses that were in the joints of all these voters when the counted renewals were sent.
        """
        sent = sorted([self.of(each).granted for each in voters], reverse=True)
        needed = majority(len(sent))
        return sent[needed - 1] + LASTS if needed <= len(sent) else _NEVER


@dataclass(slots=True)
class SteadyGroup:
    """Addresses with the same voters, renewed together, and the time until which the kernel serves them."""

    members: dict[str, None] = field(default_factory=dict[str, None])
    told: float = float("inf")

    def add(self, address: str, told: float) -> None:
        """Add an address that the kernel serves until `told`."""
        self.told = min(self.told, told) if self.members else told
        self.members[address] = None
