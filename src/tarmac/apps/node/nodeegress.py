"""Composes external services of a node. With the feature off, the state of an earlier agent is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.egress.leases.addressconfig import write_key
from tarmac.agent.egress.leases.checkpoint import LeaseCheckpoint
from tarmac.agent.egress.leases.exchange import PrivateKey
from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.egress.nodefacts import FactsAnnotation, private_key
from tarmac.agent.egress.reconciler import EgressReconciler
from tarmac.agent.egress.relayinformers import EgressObjectSource
from tarmac.agent.egress.sharing import SharedConnections
from tarmac.agent.egress.statuswriter import EgressStatusWriter
from tarmac.agent.egress.traffic import TrafficMetrics
from tarmac.agent.stats.summary import UNLABELLED, Sample
from tarmac.api.egress.nodefacts import Encryption, NodeFacts, OutsideInterface
from tarmac.base.gates import EXTERNAL_SERVICES
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.client.informer import Informers
from tarmac.datapath.egress import EgressDatapath
from tarmac.decide import reasons

_FAREWELL = 2.0
_OBJECTS, _LEASES = "external.json", "external-leases.json"
PRIVATE_KEY = "pki/external.key"
"""Path below the root directory: the key with which the node encrypts tunnels and signs leases."""
_LOOPBACK = "lo"
_NO_WIREGUARD = "Neither the kernel nor wireguard-go can encrypt here: no external services to and from other cities."
_log = log("external")


class NodeExternal:
    """External services of a node."""

    def __init__(
        self,
        config: AgentConfig,
        client: Client,
        informers: Informers,
        datapath: EgressDatapath,
        addresses: Callable[[], Sequence[str]],
        recorder: Recorder,
    ) -> None:
        self._datapath, self._recorder = datapath, recorder
        self._root, node = config.root_dir, config.node_name
        self._about = InvolvedObject("v1", "Node", node, uid=node)
        self._on = config.gates.enabled(EXTERNAL_SERVICES)
        self._facts = FactsAnnotation(client, node, self._gather)
        self._tracked: tuple[int, int] | None = None  # connections, and the maximum
        if not self._on:
            return
        draw = client.randomness.randbytes
        private = private_key(self._root / PRIVATE_KEY, draw)
        self._public = PrivateKey(private).public
        datapath.identify(private)
        self._encrypts = config.flags.encrypt_between_cities == "require"
        self._means: Encryption = "off"  # as last reported
        self._transferred: Mapping[str, int] = {}
        file = LeaseCheckpoint(self._root / _LEASES)
        self.leases = LeaseThread(node, datapath, private, file, client.clock, draw, self._moved)
        self._sharing = SharedConnections(
            datapath.state_sync,
            node,
            recorder,
            lambda: self._reconciler.is_candidate,
            lambda: self._reconciler.gateway_names,
        )
        self._status_writer = EgressStatusWriter(
            client, node, lambda: self.leases.owned, lambda: self.leases.foreign_hosts, lambda: self._sharing.partner
        )
        self._traffic = TrafficMetrics(datapath, lambda: self._reconciler.is_candidate, client.clock)
        self._reconciler = EgressReconciler(
            node,
            datapath,
            self.leases,
            file,
            lambda changed: EgressObjectSource(informers, node, self._root / _OBJECTS, changed),
            self._status_writer,
            addresses,
            client.clock,
            encrypt=self._encrypts,
        )

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks to run, by name."""
        if not self._on:
            return {"external services": self._remove, "external facts": self._facts.run}
        return {
            "external services": self._reconciler.run,
            "external status": self._status_writer.run,
            "external facts": self._facts.run,
        }

    async def networks_changed(self, networks: Set[str]) -> None:
        """Start a pass after a change of this node's Networks."""
        if self._on:
            self._reconciler.wake()

    async def stop(self) -> None:
        """Hand over the addresses of this node, before its agent ends or its machine goes down."""
        if self._on:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await self._reconciler.stop()

    async def refresh(self) -> None:
        """Refresh the traffic metrics, which are read only on a scrape."""
        if self._on:
            await self._traffic.refresh()

    def metrics(self) -> Iterator[Sample]:
        """Yield the metrics; none without external services."""
        if not self._on or not self._reconciler.metrics.applies:
            return
        counters = self._reconciler.metrics
        yield "tarmac_external_apply_seconds_sum", "counter", UNLABELLED, counters.seconds
        yield "tarmac_external_apply_seconds_count", "counter", UNLABELLED, counters.applies
        yield "tarmac_external_apply_failures_total", "counter", UNLABELLED, counters.failures
        yield "tarmac_external_drift_total", "counter", UNLABELLED, counters.drift
        if self._tracked is not None:
            yield "tarmac_gateway_conntrack_entries", "gauge", UNLABELLED, self._tracked[0]
            yield "tarmac_gateway_conntrack_limit", "gauge", UNLABELLED, self._tracked[1]
        if self._sharing.backlog is not None:
            yield "tarmac_gateway_sync_backlog", "gauge", UNLABELLED, self._sharing.backlog
        yield "tarmac_gateway_addresses", "gauge", UNLABELLED, len(self.leases.owned)
        yield from self._traffic.samples()
        yield from self._lease_metrics()
        for peer, number in sorted(self._transferred.items()):
            yield "tarmac_external_tunnel_bytes_total", "counter", {"peer": peer}, number
        for cause, number in sorted(self.leases.dropped.items()):
            yield "tarmac_external_refused_total", "counter", {"cause": cause}, number

    def _lease_metrics(self) -> Iterator[Sample]:
        for cause, number in sorted(self.leases.takeovers.items()):
            yield "tarmac_gateway_owner_changes_total", "counter", {"cause": cause}, number
        seconds, measured = self.leases.gaps
        yield "tarmac_gateway_gap_seconds_sum", "counter", UNLABELLED, seconds
        yield "tarmac_gateway_gap_seconds_count", "counter", UNLABELLED, measured
        for peer, seconds in sorted(self.leases.vote_seconds.items()):
            yield "tarmac_gateway_vote_rtt_seconds", "gauge", {"peer": peer}, seconds
        for peer, number in sorted(self.leases.votes_lost.items()):
            yield "tarmac_gateway_votes_lost_total", "counter", {"peer": peer}, number
        for address, left in sorted(self.leases.left.items()):
            yield "tarmac_gateway_lease_seconds", "gauge", {"sourceip": address}, max(0.0, left)

    def _moved(self, address: str) -> None:
        self._status_writer.moved(address)

    async def _gather(self) -> NodeFacts | None:
        if not self._on:
            return None
        interfaces = await self._datapath.interfaces()
        self._tracked = await self._datapath.tracked()
        self._transferred = await self._datapath.transferred()
        return NodeFacts(
            interfaces=[
                OutsideInterface(name, list(of)) for name, of in sorted(interfaces.items()) if name != _LOOPBACK
            ],
            encryption=await self._encryption(),
            state_sync=await self._sharing.update(),
            public_key=write_key(self._public),
        )

    async def _encryption(self) -> Encryption:
        before, self._means = self._means, await self._datapath.means() if self._encrypts else "off"
        if self._means == "none" != before:
            self._recorder.event(self._about, "Warning", reasons.ENCRYPTION_UNAVAILABLE, _NO_WIREGUARD)
        return self._means

    async def _remove(self) -> None:
        """Remove the state of an agent with the gate on; its key stays for a later use."""
        await self._datapath.remove()
        for name in (_OBJECTS, _LEASES):
            (self._root / name).unlink(missing_ok=True)
        await asyncio.Event().wait()  # nothing more to do, but a task that ends would be restarted
