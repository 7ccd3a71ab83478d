"""Kernel updates that one step of the leases has decided: made together at its end, for any number of addresses.

The loss of a gateway moves hundreds of addresses at once. With a kernel call for each, the last of them, and the
renewals of all others, would wait for longer than a lease lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tarmac.base.clock import Clock
from tarmac.decide.egress.lease.messages import Effect, Own


class Kernel(Protocol):
    """Datapath calls used by leases."""

    def follow(self, owners: Mapping[str, str]) -> None: ...
    def carry(self, seconds: Mapping[str, float]) -> None: ...
    def drop(self, addresses: Sequence[str]) -> None: ...
    def announce(self, addresses: Sequence[str]) -> None: ...


class KernelCallFailed(Exception):
    """A kernel call failed."""


@dataclass(slots=True)
class PendingUpdates:
    """Pending kernel updates, by address."""

    drops: dict[str, list[Effect]] = field(default_factory=dict[str, list[Effect]])  # with the effects that wait for it
    acquisitions: dict[str, Own] = field(default_factory=dict[str, Own])
    routes: dict[str, str] = field(default_factory=dict[str, str])  # address -> node address of its owner

    def drop(self, address: str, waiting: Iterable[Effect]) -> None:
        """Drop an address; what was decided for it earlier in this step is void."""
        self.acquisitions.pop(address, None)
        self.routes.pop(address, None)
        self.drops.setdefault(address, []).extend(waiting)

    def acquire(self, own: Own) -> None:
        """Serve an address."""
        self.routes.pop(own.address, None)
        self.acquisitions[own.address] = own

    def take_drops(self) -> dict[str, list[Effect]]:
        """Return and forget the addresses to drop."""
        # Taken before the calls: a drop that is decided while they run belongs to the next round.
        taken, self.drops = self.drops, {}
        return taken

    def take_acquisitions(self) -> dict[str, Own]:
        """Return and forget the addresses to serve."""
        taken, self.acquisitions = self.acquisitions, {}
        return taken

    def take_routes(self) -> dict[str, str]:
        """Return and forget the routes to other nodes."""
        taken, self.routes = self.routes, {}
        return taken


def own_until(kernel: Kernel, clock: Clock, expiries: Mapping[str, float]) -> None:
    """Serve addresses until the given times. Raises KernelCallFailed.

    Durations are computed right before the kernel call.
    """
    now = clock.monotonic()
    try:
        kernel.carry({each: until - now for each, until in expiries.items() if until > now})
        # The host may have been suspended between reading the clock and the kernel call. A lease that ended
        # meanwhile would live on in the kernel for its remaining time, beside the next gateway's: drop it at once.
        late = [each for each, until in expiries.items() if until <= clock.monotonic()]
        if late:
            kernel.drop(late)
    except Exception as error:
        raise KernelCallFailed from error


def call_together(call: Callable[[Sequence[str]], None], addresses: Sequence[str]) -> dict[str, Exception]:
    """Call for all addresses at once or, if that fails, for each alone. Return the failures by address."""
    if not addresses:
        return {}
    try:
        call(addresses)
    except Exception as error:
        if len(addresses) == 1:
            return {addresses[0]: error}
    else:
        return {}
    # Each alone: one address that the kernel refuses must not keep the others from being served.
    failures: dict[str, Exception] = {}
    for each in addresses:
        failures |= call_together(call, [each])
    return failures
