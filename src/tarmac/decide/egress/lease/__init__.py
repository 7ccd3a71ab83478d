"""Leases on addresses, granted by a majority of voters to one gateway: pure state machines over messages and time.

A voter promises an address to one holder for `LEASE` seconds from when it *received* the request; the holder counts
from when it *sent* it. A message is received after it is sent, so a holder gives up before its promises expire, and any
two majorities share a voter: there are never two holders. Only durations are compared, each on one node's own clock, so
clocks need not agree; their rates may differ by `DRIFT`.

A restarted voter has lost its promises, so it promises nothing for the length of a lease. Voters change one at a time,
and only after every candidate has acknowledged the previous set, so majorities of two sets in use at once share one.

Epochs count the changes of owner and fence off late messages: a released promise is never renewed under the same epoch,
and nodes follow an announcement only if its epoch is higher than the one they know.
"""

from __future__ import annotations

from typing import Final

LEASE: Final = 1.5
RENEW: Final = 0.3  # interval of a holder's requests, and of a voter's Vacant messages for one address
STEP: Final = 0.2  # delay of each candidate after the one before it in line
ELECTION_TIMEOUT: Final = 0.3  # timeout of an election
CONFLICT_REST: Final = 60.0  # pause after a foreign host with the address was found on the wire
DRIFT: Final = 0.001
LASTS: Final = LEASE * (1 - DRIFT)  # of a promise for its holder: the voter's clock may run faster
FURTHEST: Final = 1000  # limit by which a voter's epoch may exceed an owner's ballot; a hostile voter may claim any


def majority(voters: int) -> int:
    """Return the number of votes that form a majority."""
    return voters // 2 + 1
