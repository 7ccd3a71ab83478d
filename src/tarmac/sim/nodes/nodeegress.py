"""External services on simulated nodes: they apply rules, acknowledge them, and carry addresses.

One watch over Forwarders and one over Gateways serve all nodes. A node applies its objects while it receives changes; a
returning node reads everything again. `seen` returns the source address of a pod's connection outside, according to the
rules that nodes have applied and the lease owners, not according to the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from tarmac.api.declare import decoder, encode
from tarmac.api.egress.forwarding import Forwarder, ForwarderSpec, Gateway, GatewaySpec
from tarmac.api.egress.names import API_VERSION, NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import rfc3339
from tarmac.base.cooperative import CooperativeWork
from tarmac.client.client import Client
from tarmac.client.controller import Controller
from tarmac.client.reflector import Reflector
from tarmac.client.targets.typed import FORWARDERS, GATEWAYS
from tarmac.client.watch import Change
from tarmac.decide.egress.relayconditions import forwarder_findings
from tarmac.decide.rollup import merge
from tarmac.sim.nodes.leasing import SimLeases
from tarmac.sim.nodes.simulatednode import SimulatedNode

K = TypeVar("K")

_WORKERS = 16
_forwarder, _gateway = decoder(Forwarder), decoder(Gateway)


class _Sink(Generic[K]):
    """Reports each present and each deleted object of one kind."""

    def __init__(self, read: Callable[[Any], K], changed: Callable[[K], None], gone: Callable[[str], None]) -> None:
        self._read, self._changed, self._gone = read, changed, gone
        self._known: set[str] = set()

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Apply a full list."""
        present = {change.metadata.name for change in state}
        for name in sorted(self._known - present):
            self._forget(name)
            yield
        for change in state:
            self.changed(change)
            yield

    def changed(self, change: Change) -> None:
        """Apply one change."""
        if change.type == "DELETED":
            self._forget(change.metadata.name)
        else:
            self._known.add(change.metadata.name)
            self._changed(self._read(change.raw))

    def _forget(self, name: str) -> None:
        self._known.discard(name)
        self._gone(name)


class SimRelays:
    """The part of all nodes of a process in external services."""

    def __init__(self, client: Client, nodes: Mapping[str, SimulatedNode]) -> None:
        self._forwarders: dict[str, Forwarder] = {}  # as the API has them
        self._gateways: dict[str, Gateway] = {}
        self._client, self._nodes = client, nodes
        self._rules: dict[str, dict[str, ForwarderSpec]] = {}  # node -> name -> applied rules
        self._carried: dict[str, dict[str, GatewaySpec]] = {}
        self.leases = SimLeases(nodes, client.clock, self._moved)
        self._forwarding, self._owning = client.resource(FORWARDERS), client.resource(GATEWAYS.unread)
        self._reporting = Controller(
            "simulated-relays", self._report, clock=client.clock, randomness=client.randomness, workers=_WORKERS
        )

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reporting.run())
            forwarders = _Sink(_forwarder, self._forwarder_changed, self._forwarder_gone)
            group.create_task(Reflector(self._client, FORWARDERS, forwarders, namespace=NAMESPACE).run())
            gateways = _Sink(_gateway, self._gateway_changed, self._gateway_gone)
            group.create_task(Reflector(self._client, GATEWAYS, gateways, namespace=NAMESPACE).run())

    def lose_power(self, node: str) -> None:
        """Drop all state of a node except that on its disk."""
        self._rules.pop(node, None)
        self._carried.pop(node, None)
        self.leases.lose_power(node)

    def agent_started(self, node: str) -> None:
        """Restart a node's agent; the kernel state is kept."""
        self.leases.agent_started(node)

    def returned(self, node: str) -> None:
        """Bring a returning node up to date: remove deleted objects and apply the rest."""
        for name in [*self._rules.get(node, {})]:
            if name not in self._forwarders:
                self._rules[node].pop(name)
        for name in [*self._carried.get(node, {})]:
            if name not in self._gateways:
                self._forget(node, name)
        for forwarder in self._forwarders.values():
            if forwarder.spec.node_name == node:
                self._forwarder_changed(forwarder)
        for gateway in self._gateways.values():
            self._take(node, gateway)

    def _forwarder_changed(self, forwarder: Forwarder) -> None:
        """Apply the rules to its node, if the node receives changes."""
        name, node = forwarder.metadata.name, self._nodes.get(forwarder.spec.node_name)
        self._forwarders[name] = forwarder
        if node is not None and node.hears:
            self._rules.setdefault(node.name, {})[name] = forwarder.spec
            done = forwarder.status.applied_generation if forwarder.status is not None else 0
            if done != forwarder.metadata.generation:
                self._reporting.queue.add(f"forwarder/{name}")

    def _forwarder_gone(self, name: str) -> None:
        """Remove withdrawn rules, if the node receives changes."""
        gone = self._forwarders.pop(name, None)
        node = self._nodes.get(gone.spec.node_name) if gone is not None else None
        if node is not None and node.hears:
            self._rules.get(node.name, {}).pop(name, None)

    def _gateway_changed(self, gateway: Gateway) -> None:
        """Apply the Gateway to every node that it names or named, if the node receives changes."""
        name = gateway.metadata.name
        self._gateways[name] = gateway
        named = gateway.spec.concerned
        had = {node for node, known in self._carried.items() if name in known}
        for node in sorted(named | had):
            self._take(node, gateway)

    def _gateway_gone(self, name: str) -> None:
        """Remove the Gateway from every node that receives changes; these carry the address no longer."""
        self._gateways.pop(name, None)
        for node in [each for each, known in self._carried.items() if name in known and self._nodes[each].hears]:
            self._forget(node, name)

    def _take(self, node: str, gateway: Gateway) -> None:
        name, known = gateway.metadata.name, self._nodes.get(node)
        named = node in gateway.spec.concerned
        if known is None or not known.hears or not (named or name in self._carried.get(node, {})):
            return
        self._carried.setdefault(node, {})[name] = gateway.spec
        self.leases.follow(node, gateway, name)
        entries = {each.name: each for each in (gateway.status.nodes if gateway.status is not None else ())}
        if named and (node not in entries or entries[node].applied_generation != gateway.metadata.generation):
            self._reporting.queue.add(f"gateway/{name}/{node}")

    def _forget(self, node: str, name: str) -> None:
        self._carried[node].pop(name, None)
        self.leases.follow(node, None, name)

    def _moved(self, node: str, name: str) -> None:
        self._reporting.queue.add(f"gateway/{name}/{node}")

    async def _report(self, key: str) -> None:
        what, _, rest = key.partition("/")
        with suppress(NotFound, Conflict):
            if what == "forwarder":
                await self._report_forwarder(rest)
            else:
                await self._report_gateway(*rest.split("/"))

    async def _report_forwarder(self, name: str) -> None:
        known = self._forwarders.get(name)
        if known is None or not self._nodes[known.spec.node_name].hears:
            return
        newest = known.metadata.generation
        fields = ("observedGeneration", "appliedGeneration", "rulegeneration", "syncgeneration")
        reported = known.status.conditions if known.status is not None else []
        conditions = merge(reported, forwarder_findings(newest, newest, ()), newest, self._client.clock.now())
        status = {**dict.fromkeys(fields, newest), "conditions": [encode(each) for each in conditions]}
        await self._forwarding.patch(name, {"status": status}, NAMESPACE, subresource="status")

    async def _report_gateway(self, name: str, node: str) -> None:
        """Write a node's own entry. Its field manager owns that entry only, so nodes do not overwrite each other."""
        known = self._gateways.get(name)
        if known is None or not self._nodes[node].hears:
            return
        carrying = self.leases.carrying(node, name)
        entry: JsonObject = {
            "name": node,
            **dict.fromkeys(("appliedGeneration", "rulegeneration", "syncgeneration"), known.metadata.generation),
            "owner": carrying is not None,
        }
        if carrying is not None:
            entry |= {"epoch": carrying.epoch, "since": rfc3339(carrying.since)}
            entry |= {"formerOwner": carrying.former} if carrying.former else {}
        partner = next((each.partner for each in known.spec.candidates if each.name == node), "")
        if partner in self._nodes and self.leases.connected(node, partner):
            entry |= {"syncedWith": partner}
        body = {
            "apiVersion": API_VERSION,
            "kind": "Gateway",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "status": {"nodes": [entry]},
        }
        await self._owning.apply(body, manager=f"node-{node}", subresource="status")

    def seen(self, service: str, uid: str, node: str) -> str:
        """Return the outside source address of a pod's connection to an ExternalService; empty when it is refused."""
        for address, transit in self._ways(service, uid, node):
            carrier = self.leases.carrier(address)
            rules = self._carried.get(carrier, {}).get(address)
            known = rules is not None and any(rule.source_ip == transit for rule in rules.egress_rules)
            if known and rules is not None and self.leases.connected(node, carrier):
                return rules.gateway_ip
        return ""

    def _ways(self, service: str, uid: str, node: str) -> Iterator[tuple[str, str]]:
        """Yield the Gateways and transit addresses through which a node would send a pod's connection."""
        for spec in self._rules.get(node, {}).values():
            owner = spec.external_service
            if owner is not None and f"{owner.namespace}/{owner.name}" == service:
                for rule in spec.egress_rules:
                    if rule.pod == uid and rule.gateway is not None:
                        yield rule.gateway.name, rule.transit_ip
