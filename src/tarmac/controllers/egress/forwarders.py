"""Forwarders of an ExternalService: one for each node with source pods."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from tarmac.api.declare import encode
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, ForwarderSpec
from tarmac.api.egress.names import (
    API_VERSION,
    LABEL_EXTERNAL_SERVICE,
    LABEL_NAMESPACE,
    LABEL_NODE,
    NAMESPACE,
    forwarder_name,
    node_label,
)
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists
from tarmac.controllers.egress.caches import BY_OWNER, MANAGER, EgressCaches
from tarmac.controllers.egress.objectindexes import service_key
from tarmac.controllers.writes import delete_same, difference
from tarmac.decide.egress.compiling import Compiled

_bytes = msgspec.json.Encoder().encode


class ForwarderWriter:
    """Finds and writes Forwarders."""

    def __init__(self, caches: EgressCaches) -> None:
        self._caches = caches

    def of(self, key: str) -> list[Forwarder]:
        """Return the Forwarders of an ExternalService."""
        return [each for each in self._caches.forwarders.indexed(BY_OWNER, key) if service_key(each) == key]

    async def write(
        self, service: ExternalService, made: Compiled, known: Mapping[str, Forwarder], *, early: bool
    ) -> None:
        """Create, change and delete Forwarders.

        `early`: the Gateway does not have the new rules yet, so new rules and new Forwarders are held back.
        """
        for node, spec in sorted(made.forwarders.items()):
            present = known.get(node)
            # A new node waits too: the Gateway's owner would drop its packets until it has the rules.
            if early and present is None:
                continue
            await self._write(service, present, _present_rules(present.spec, spec) if early and present else spec)
        for node, present in known.items():
            if node not in made.forwarders:
                await delete_same(self._caches.forwarder_resource, present.metadata)

    async def _write(self, service: ExternalService, known: Forwarder | None, spec: ForwarderSpec) -> None:
        own, node, resource = service.metadata, spec.node_name, self._caches.forwarder_resource
        name = forwarder_name(own.namespace, own.name, node)
        if known is None:
            labels = {LABEL_NAMESPACE: own.namespace, LABEL_EXTERNAL_SERVICE: own.name, LABEL_NODE: node_label(node)}
            metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
            body: JsonObject = {
                "apiVersion": API_VERSION,
                "kind": "Forwarder",
                "metadata": metadata,
                "spec": encode(spec),
            }
            with suppress(AlreadyExists):  # the cache is behind and will show it
                self._wrote(await resource.create(body, manager=MANAGER))
            return
        patch = difference(encode(known.spec), encode(spec))
        if patch:
            body = {"metadata": {"resourceVersion": known.metadata.resource_version}, "spec": patch}
            self._wrote(await resource.patch(name, body, NAMESPACE, manager=MANAGER))

    def _wrote(self, forwarder: Forwarder) -> None:
        self._caches.forwarders.wrote(forwarder)
        # Counted at once: another service decided before the watch event must not get the same transit number.
        self._caches.transit_numbers.put(f"{NAMESPACE}/{forwarder.metadata.name}", forwarder)


def _present_rules(present: ForwarderSpec, wanted: ForwarderSpec) -> ForwarderSpec:
    """Return the wanted rules that are already present.

    Withdrawn rules are removed at once; new rules are added once the Gateway has them.
    """
    there = {_bytes(rule) for rule in (*present.egress_rules, *present.ingress_rules)}
    return ForwarderSpec(
        external_service=wanted.external_service,
        node_name=wanted.node_name,
        service_ip=wanted.service_ip,
        forwarder_ip=wanted.forwarder_ip,
        egress_rules=[rule for rule in wanted.egress_rules if _bytes(rule) in there],
        ingress_rules=[rule for rule in wanted.ingress_rules if _bytes(rule) in there],
    )
