"""Which gateway carries an address: a lease that voters grant, as pure state machines over messages and time.

A voter promises an address to one holder for `LEASE` seconds from when it *received* the request; the holder counts
from when it *sent* it. A message is received after it is sent, so a holder gives up before the promises lapse on which
it rests, and any two majorities share a voter: there are never two holders. Only durations are compared, each on one
node's own clock, so clocks need not agree; they may go `DRIFT` faster or slower than each other.

A voter that has just started remembers nothing, so it promises nothing for the length of a lease. Voters change one
at a time, and only when every candidate knows the set before, so majorities of two sets in use at once share a voter.

Epochs count the changes of owner. They keep late messages from meaning something new: a promise that was given back
is never renewed under the same epoch, and nodes follow an announcement only with a higher epoch than they know.
"""

from __future__ import annotations

from typing import Final

LEASE: Final = 1.5
RENEW: Final = 0.3  # between two requests of a holder, and between two words of a voter about a vacant address
STEP: Final = 0.2  # by which each candidate waits longer than the one before it
PATIENCE: Final = 0.3  # how long a candidate waits for votes
CONFLICT_REST: Final = 60.0  # after a foreign holder was found on the wire
DRIFT: Final = 0.001
FURTHEST: Final = 1000  # by which a voter's number may exceed an owner's ballot; a hostile one may claim any


def majority(voters: int) -> int:
    """How many of so many votes it takes."""
    return voters // 2 + 1
