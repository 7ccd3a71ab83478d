"""What has become of an ExternalService's rules so far, for its status and its explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.relays import Forwarder, Gateway
from tarmac.decide.egress.known import KnownWorld
from tarmac.decide.egress.sources import Resolution
from tarmac.decide.egress.status import Observed
from tarmac.decide.egress.views import age
from tarmac.decide.verdict import Refusal


def observe(found: Resolution, forwarders: Mapping[str, Forwarder], world: KnownWorld) -> Observed:
    """Its Forwarders by node, the Gateways of its addresses, and why addresses have none."""
    return Observed(
        forwarders=forwarders,
        gateways=dict(_gateways(found, world)),
        unassigned=dict(_unassigned(found, world)),
        older=_older(found.service, world),
    )


def _gateways(found: Resolution, world: KnownWorld) -> Iterator[tuple[str, Gateway]]:
    for source in found.sources:
        name = source.source_ip.metadata.name if source.source_ip is not None else ""
        gateway = world.gateway(name) if name else None
        if gateway is not None:
            yield name, gateway


def _unassigned(found: Resolution, world: KnownWorld) -> Iterator[tuple[str, Refusal]]:
    for source in found.working:
        name = source.source_ip.metadata.name if source.source_ip is not None else ""
        verdict = world.assigned(name)
        if verdict.value is None and verdict.refusals:
            yield name, verdict.refusals[0]


def _older(service: ExternalService, world: KnownWorld) -> str:
    """The ExternalService that has the short name, if it is another."""
    first = min(world.called(service.metadata.name), key=age, default=service).metadata
    return "" if first.uid == service.metadata.uid else f"{first.namespace}/{first.name}"
