"""Reconciles the Gateway of each used SourceIP: candidates, voters, and the rules of the ExternalServices that use it.

This loop writes all parts of a Gateway except its rules, and deletes it when the address is no longer used. The loop of
ExternalServices adds the rules, each service its own. Both loops write conditionally on the version they read. The
conditions are computed here from the reports of the nodes; each node writes only its own entry.
"""

from __future__ import annotations

from contextlib import suppress

from tarmac.api.declare import encode
from tarmac.api.egress.forwarding import Gateway, GatewaySpec, GatewayStatus
from tarmac.api.egress.names import API_VERSION, LABEL_CLASS, NAMESPACE
from tarmac.api.egress.sourceip import SourceIP
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Conflict, NotFound
from tarmac.client.controller import RetryAfter
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.cachedmodel import CachedEgressModel
from tarmac.controllers.egress.caches import BY_HOLDER, MANAGER, EgressCaches, owner_of_rule
from tarmac.controllers.writes import delete_same, difference, write_status
from tarmac.decide.egress.candidates import HANDOVER_TIMEOUT
from tarmac.decide.egress.claims import RESTING, holders, phase_of
from tarmac.decide.egress.gateways import gateway_spec, senders
from tarmac.decide.egress.relayconditions import gateway_findings
from tarmac.decide.egress.status import owner_of
from tarmac.decide.rollup import merge

_LATER = 2.0  # seconds of debounce: nodes and owners change together
_SOON = 0.1  # seconds: a timer that fires early must not spin


class GatewayLoop:
    """Reconciles by the name of the SourceIP."""

    def __init__(self, context: ControllerContext, caches: EgressCaches, model: CachedEgressModel) -> None:
        self._caches, self._model = caches, model
        self.controller = context.controller("gateways", self.reconcile, workers=1)
        self.controller.watches(caches.known_source_ips)
        self.controller.watches(caches.known_gateways, lambda item: (item.metadata.name,))
        self.controller.watches(
            caches.claims, lambda item: item.object.status.source_ip_names if item.object.status else []
        )
        self.controller.watches(caches.services, lambda item: self._addresses_of(item.metadata.namespace))
        self.controller.awaits(caches.nodes)
        caches.node_views.listeners.append(self._nodes_changed)
        self.controller.watches(caches.classes, lambda _: caches.known_source_ips.cache.keys(), after=_LATER)
        self.controller.awaits(caches.namespaces)

    def _nodes_changed(self) -> None:
        for name in self._caches.known_source_ips.cache.keys():  # noqa: SIM118 no mapping
            self.controller.queue.add_after(name, _LATER)

    def _addresses_of(self, namespace: str) -> list[str]:
        return [item.key for item in self._caches.known_source_ips.indexed(BY_HOLDER, namespace)]

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Create, update or delete one Gateway."""
        address, known = self._caches.source_ips.get(name), self._caches.gateways.get(f"{NAMESPACE}/{name}")
        if address is None and known is not None:
            await self._confirm_gone(name)
        wanted = self.wanted(address, known) if address is not None else None
        if wanted is None:
            if known is not None:
                await delete_same(self._caches.gateway_resource, known.metadata)
            return None
        users = {f"{each.metadata.namespace}/{each.metadata.name}" for each in self._model.users(name)}
        wanted.egress_rules = [rule for rule in wanted.egress_rules if owner_of_rule(rule) in users]
        wanted.ingress_rules = [rule for rule in wanted.ingress_rules if owner_of_rule(rule) in users]
        if (written := await self.write(name, known, wanted)) is not None:
            self._record_overdue(address, known, wanted)
            await self._write_status(written)
        waits = self._model.handover(name)
        if waits is None or waits.deadline is None:  # a change of the Node starts the next pass
            return None
        return RetryAfter(max(waits.deadline - self._caches.clock.now(), _SOON))

    def _record_overdue(self, address: SourceIP | None, known: Gateway | None, wanted: GatewaySpec) -> None:
        """Record that an owner lost its candidacy because it did not hand over in time."""
        owner = owner_of(known)
        if address is None or known is None or owner is None or not self._model.is_overdue(owner.name):
            return
        before, after = ({each.name for each in spec.candidates} for spec in (known.spec, wanted))
        if owner.name in before - after:
            about = InvolvedObject(API_VERSION, "SourceIP", address.metadata.name, "", address.metadata.uid)
            waited = f"{owner.name} is cordoned and has not shared its connections within {HANDOVER_TIMEOUT:.0f} s"
            message = f"{address.spec.address} moves without them: {waited}"
            self._caches.recorder.event(about, "Warning", "HandoverTimeout", message)

    async def _write_status(self, gateway: Gateway) -> None:
        """Write the conditions: whether all of its nodes have applied the newest rules."""
        own, old = gateway.metadata, gateway.status or GatewayStatus()
        conditions = merge(old.conditions, gateway_findings(gateway), own.generation, self._caches.clock.now())
        status = GatewayStatus(own.generation, conditions, old.nodes)
        written = await write_status(self._caches.gateway_resource, own, gateway.status, status, MANAGER)
        if written is not None:
            self._caches.gateways.wrote(written)

    async def _confirm_gone(self, name: str) -> None:
        """Ask the server before a Gateway is deleted, since that stops its address.

        Raises Conflict when the cache is behind.
        """
        with suppress(NotFound):
            self._caches.source_ips.wrote(await self._caches.source_ip_resource.get(name))
            raise Conflict("our copy is behind")

    def wanted(self, address: SourceIP, known: Gateway | None) -> GatewaySpec | None:
        """Return the Gateway with its present rules; None when the address is unused or no holder is allowed to."""
        offered = self._caches.classes.get(address.spec.class_name)
        status = address.status
        claims = [self._caches.claims.get(f"{each.namespace}/{each.name}") for each in holders(address)]
        allowed = [each for each in claims if each is not None and offered is not None
                   and self._model.allowed(offered, each.metadata.namespace)]  # fmt: skip
        # In quarantine no node may serve it, even if a service still names it.
        idle = phase_of(address) in RESTING or not self._model.users(address.metadata.name)
        if offered is None or not allowed or idle or status is None or not status.id:
            return None
        able = self._model.candidates(address.metadata.name)
        if not able and known is None:
            return None
        limits = [each.spec.limits for each in allowed]
        return gateway_spec(known, address, offered, limits, able, list(self._caches.node_views.views.values()))

    async def write(self, name: str, known: Gateway | None, wanted: GatewaySpec) -> Gateway | None:
        """Create the Gateway or patch the fields that differ; return the result. Its senders follow from its rules."""
        # Computed from the rules that are written with it: from older ones, a sender could be admitted without a rule.
        wanted.senders = senders(wanted, self._caches.node_views.by_digits)
        resource = self._caches.gateway_resource
        if known is None:
            address = self._caches.source_ips.get(name)
            labels = {LABEL_CLASS: address.spec.class_name} if address is not None else {}
            metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
            body: JsonObject = {
                "apiVersion": API_VERSION,
                "kind": "Gateway",
                "metadata": metadata,
                "spec": encode(wanted),
            }
            with suppress(AlreadyExists):  # the cache is behind and will show it
                made = await resource.create(body, manager=MANAGER)
                self._caches.gateways.wrote(made)
                return made
            return None
        # Two loops write this object, each from its own view. The version makes the loser read again instead of undoing
        # rules.
        patch = difference(encode(known.spec), encode(wanted))
        if not patch:
            return known
        body = {"metadata": {"resourceVersion": known.metadata.resource_version}, "spec": patch}
        changed = await resource.patch(name, body, NAMESPACE, manager=MANAGER)
        self._caches.gateways.wrote(changed)
        return changed
