"""Self-tests of gateways: if a gateway's own connections to a public address prove that it may announce it. Pure.

An address that the gateway does not announce yet waits for a test that passes, or for three that fail; afterwards three
failures in a row withdraw it. A gateway that passes again announces only after it has passed for a while: 5 seconds,
and twice as long after each further failure, up to a minute. Without that, a path that fails now and then would move
clients to and fro.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from tarmac.api.ingress.publicaddress import PublicAddress

State = Literal["Pending", "Passed", "Failed"]

MAX_FAILURES: Final = 3
INTERVAL: Final = 5.0
RETRY: Final = 0.5
"""Between tests of an address that has not passed yet: its endpoints may be a moment from being reachable."""
MAX_RETRIES: Final = 10
MIN_HOLD: Final = 5.0
MAX_HOLD: Final = 60.0
CALM: Final = 600.0
"""After this time without a failure the hold is short again."""
MAX_PER_SECOND: Final = 50


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The tests of one address so far. Times are monotonic seconds."""

    state: State = "Pending"
    failures: int = 0  # in a row
    tested_at: float = 0.0
    passing_since: float = 0.0
    failed_at: float = 0.0
    hold: float = 0.0

    @property
    def is_doubtful(self) -> bool:
        """True once the last two tests failed. Other gateways must know it before this one withdraws."""
        return self.failures >= MAX_FAILURES - 1 or (self.state == "Failed" and self.hold > 0)

    def due_at(self, number: int) -> float:
        """Return when the next test is due. `number` of addresses: many are tested more rarely."""
        if self.state == "Pending" and not self.failures:
            return 0.0
        soon = self.state != "Passed" and not self.hold and self.failures < MAX_RETRIES
        return self.tested_at + (RETRY if soon else max(INTERVAL, number / MAX_PER_SECOND))


def next_record(before: SelfTest, now: float, *, passed: bool) -> SelfTest:
    """Return the record after one more test."""
    if not passed:
        return _failed(before, now)
    since = before.passing_since or now
    # An address that never passed has disturbed no client yet: it need not wait.
    back = before.state != "Failed" or now - since >= before.hold
    hold = 0.0 if before.state == "Passed" and now - before.failed_at > CALM else before.hold
    state: State = "Passed" if back else "Failed"
    return replace(before, state=state, failures=0, tested_at=now, passing_since=since, hold=hold)


def _failed(before: SelfTest, now: float) -> SelfTest:
    failures = before.failures + 1
    found = replace(before, failures=failures, tested_at=now, passing_since=0.0, failed_at=now)
    if before.state == "Pending":
        # Its endpoints may be a moment from being reachable: an announcement that is withdrawn again moves clients.
        return replace(found, state="Failed" if failures >= MAX_FAILURES else "Pending")
    if before.state == "Passed" and failures >= MAX_FAILURES:
        return replace(found, state="Failed", hold=min(MAX_HOLD, max(MIN_HOLD, before.hold * 2)))
    return found


def passing_gateways(address: PublicAddress) -> frozenset[str]:
    """Return the nodes that announce an address, or may own it, and report no obstacle.

    A gateway whose test fails withdraws only while another passes: a test that fails everywhere, such as one that a
    NetworkPolicy forbids, must not take the address down.
    """
    able = {each.name for each in address.spec.candidates}
    entries = address.status.nodes if address.status is not None else ()
    return frozenset(each.name for each in entries if not each.reason and (each.announcing or each.name in able))
