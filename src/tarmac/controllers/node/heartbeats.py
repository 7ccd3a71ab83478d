"""Time of each node's last sign of life, on this process's own clock.

A renewal counts from its observation here, by the monotonic clock, so neither a node's wall clock nor ours can make a
live node look dead. A node is silent when nothing was observed for the duration of its lease, and never before the
operator's `grace`. The node writes that duration: a stolen one that fell silent after a lease of decades would never be
noticed, and its pods never replaced, so the duration is bounded. After a start all nodes count as just observed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tarmac.api.status import NotFound
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import LEASES, NODES
from tarmac.controllers.nodefacts import read_node
from tarmac.controllers.noderemoval import LEASE_NAMESPACE

MAX_DURATION: Final = 600.0


class _Spec(msgspec.Struct, rename="camel"):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_read_lease = msgspec.json.Decoder(_Lease).decode


class _Sign:
    """The last sign of life of a node, and its content."""

    __slots__ = ("grace", "heartbeat", "observed_at", "renewal")

    def __init__(self, observed_at: float, grace: float) -> None:
        self.observed_at = observed_at
        self.grace = grace
        self.renewal: str | None = None
        self.heartbeat: str | None = None


class Heartbeats:
    """Signs of life by node name."""

    def __init__(self, client: Client, informers: Informers, grace: float) -> None:
        self._clock = client.clock
        self._grace = grace
        self._signs: dict[str, _Sign] = {}
        self._resource = client.resource(LEASES)
        self.nodes = informers.informer(NODES)
        self.leases = informers.informer(LEASES, namespace=LEASE_NAMESPACE)
        self.nodes.on_change(self._node_changed)
        self.leases.on_change(self._lease_changed)

    def silent_in(self, name: str) -> float:
        """Return the seconds until the node counts as silent without a further sign; 0 or less when it does now."""
        sign = self._sign(name)
        return sign.observed_at + sign.grace - self._clock.monotonic()

    async def confirm_silent(self, name: str) -> bool:
        """Ask the server before a node is declared silent: our own watch may be broken."""
        try:
            lease = await self._resource.get(name, LEASE_NAMESPACE)
        except NotFound:
            return True
        self._renewed(name, msgspec.convert(lease.get("spec") or {}, _Spec))
        return self.silent_in(name) <= 0

    def _sign(self, name: str) -> _Sign:
        sign = self._signs.get(name)
        if sign is None:
            # Seen just now: after a start no node is silent before it had a full grace period.
            sign = self._signs[name] = _Sign(self._clock.monotonic(), self._grace)
        return sign

    def _lease_changed(self, _old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is not None:
            self._renewed(new.metadata.name, _read_lease(new.raw).spec)

    def _renewed(self, name: str, spec: _Spec) -> None:
        sign = self._sign(name)
        sign.grace = max(self._grace, min(float(spec.lease_duration_seconds or 0), MAX_DURATION))
        # Any change is a sign of life, also to an earlier time: the node's clock may have been set back.
        if spec.renew_time != sign.renewal:
            sign.renewal, sign.observed_at = spec.renew_time, self._clock.monotonic()

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Count a new heartbeat in the node's status as a sign of life.

        The Unknown status, written by this controller, is none.
        """
        if new is None:
            if old is not None:
                self._signs.pop(old.metadata.name, None)
            return
        ready, sign = read_node(new.raw).ready, self._sign(new.metadata.name)
        if ready is not None and ready.status != "Unknown" and ready.last_heartbeat_time != sign.heartbeat:
            sign.heartbeat, sign.observed_at = ready.last_heartbeat_time, self._clock.monotonic()
