"""Composes public addresses of a node. With the feature off, the state of an earlier agent is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.egress.leases.checkpoint import LeaseCheckpoint
from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.egress.nodefacts import private_key
from tarmac.agent.ingress.addresscheck import check_address
from tarmac.agent.ingress.announcer import RouteAnnouncer
from tarmac.agent.ingress.healthchecks import HealthCheckServer
from tarmac.agent.ingress.ingressinformers import IngressObjectSource
from tarmac.agent.ingress.leases import PURPOSE, IngressLeaseKernel
from tarmac.agent.ingress.passwords import SessionPasswords
from tarmac.agent.ingress.reconciler import IngressReconciler, Networks
from tarmac.agent.ingress.sessionwriter import SessionStatusWriter
from tarmac.agent.ingress.statuswriter import IngressStatusWriter
from tarmac.agent.stats.summary import UNLABELLED, Sample
from tarmac.api.ingress.nodechecks import NodeIngressCheck
from tarmac.api.networking.ports import INGRESS_LEASE_PORT
from tarmac.apps.node.nodeegress import PRIVATE_KEY
from tarmac.base.gates import WAY_IN
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.datapath.interface import Datapath
from tarmac.datapath.speaker import ESTABLISHED

_FAREWELL = 2.0
_OBJECTS, _LEASES = "ingress.json", "ingress-leases.json"


class NodeIngress:
    """Public addresses of a node. `networks` returns the ranges of each Network in force on it."""

    def __init__(
        self,
        config: AgentConfig,
        client: Client,
        informers: Informers,
        datapath: Datapath,
        addresses: Callable[[], Sequence[str]],
        networks: Callable[[], Networks],
    ) -> None:
        self._datapath, self._root, node = datapath.ingress, config.root_dir, config.node_name
        self._on = config.gates.enabled(WAY_IN)
        self._clock, self._drain = client.clock, config.flags.drain_announcements
        if not self._on:
            return
        draw = client.randomness.randbytes
        kernel = IngressLeaseKernel(datapath.ingress)
        private = private_key(self._root / PRIVATE_KEY, draw)
        file = LeaseCheckpoint(self._root / _LEASES)
        port = INGRESS_LEASE_PORT
        self.leases = LeaseThread(node, kernel, private, file, client.clock, draw, self._moved, port, purpose=PURPOSE)
        self._status_writer = IngressStatusWriter(
            client, node, lambda: self.leases.owned, lambda: self.leases.foreign_hosts, lambda: self._announcer
        )
        self._session_writer = SessionStatusWriter(client, node)
        self._announcer = RouteAnnouncer(
            datapath.ingress.speaker, self._session_writer, client.clock, self._status_writer.moved
        )
        self._reconciler = IngressReconciler(
            node,
            datapath.ingress,
            self.leases,
            lambda changed: IngressObjectSource(informers, node, self._root / _OBJECTS, changed),
            self._status_writer,
            self._announcer,
            SessionPasswords(client),
            HealthCheckServer(),
            addresses,
            networks,
            lambda: datapath.external.interfaces(connected=True),
            client.clock,
        )

    def runs(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the tasks to run, by name."""
        if not self._on:
            return {"public addresses": self._remove}
        return {
            "public addresses": self._reconciler.run,
            "public address status": self._status_writer.run,
            "public address tests": self._reconciler.tests.run,
            "BGP sessions": self._announcer.run,
            "BGP session status": self._session_writer.run,
        }

    async def networks_changed(self, networks: Set[str]) -> None:
        """Start a pass after a change of this node's Networks."""
        if self._on:
            self._reconciler.wake()

    async def stop(self) -> None:
        """Hand over the addresses of this node, before its agent ends or its machine goes down.

        Routers need a moment to follow withdrawn routes: until then, this node forwards what still arrives.
        """
        if not self._on:
            return
        announced = bool(self._announcer.announced)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await self._reconciler.stop()
        if announced:
            await self._clock.sleep(self._drain)

    async def check(self, address: str, port: int) -> NodeIngressCheck | None:
        """Connect to a public address from this node; None if its rules have no such TCP port."""
        state = self._reconciler.applied if self._on else None
        return None if state is None else await check_address(self._datapath, state, address, port, self._clock)

    def metrics(self) -> Iterator[Sample]:
        """Yield the metrics; none without public addresses."""
        if not self._on or not self._reconciler.takes_part:
            return
        yield "tarmac_ingress_addresses", "gauge", {"by": "lease"}, len(self.leases.owned)
        yield "tarmac_ingress_addresses", "gauge", {"by": "bgp"}, len(self._announcer.announced)
        for result, number in sorted(self._reconciler.tests.results.items()):
            yield "tarmac_ingress_selftests_total", "counter", {"result": result}, number
        yield "tarmac_ingress_selftest_seconds", "gauge", UNLABELLED, self._reconciler.tests.seconds
        yield "tarmac_ingress_conflicts", "gauge", UNLABELLED, len(self.leases.foreign_hosts)
        for cause, number in sorted(self.leases.takeovers.items()):
            yield "tarmac_ingress_owner_changes_total", "counter", {"cause": cause}, number
        for cause, number in sorted(self.leases.dropped.items()):
            yield "tarmac_ingress_refused_total", "counter", {"cause": cause}, number
        for peer, session in sorted(self._announcer.sessions.items()):
            yield "tarmac_bgp_session_up", "gauge", {"peer": peer}, session.state == ESTABLISHED
            yield "tarmac_bgp_announced", "gauge", {"peer": peer}, session.announced

    def _moved(self, address: str) -> None:
        self._status_writer.moved(address)

    async def _remove(self) -> None:
        """Remove the state of an agent with the gate on; its key stays for a later use."""
        await self._datapath.remove()
        for name in (_OBJECTS, _LEASES):
            (self._root / name).unlink(missing_ok=True)
        await asyncio.Event().wait()  # nothing more to do, but a task that ends would be restarted
