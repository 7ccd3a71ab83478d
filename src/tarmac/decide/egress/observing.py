"""Observed state of an ExternalService's rules, for its status and its explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.decide.egress.model import EgressModel
from tarmac.decide.egress.sources import Resolution
from tarmac.decide.egress.status import Observed
from tarmac.decide.verdict import Refusal


def observe(found: Resolution, forwarders: Mapping[str, Forwarder], world: EgressModel) -> Observed:
    """Return the Forwarders by node, the Gateways of the addresses, and the reasons for addresses without one."""
    return Observed(
        forwarders=forwarders,
        gateways=dict(_gateways(found, world)),
        unassigned=dict(_unassigned(found, world)),
    )


def _gateways(found: Resolution, world: EgressModel) -> Iterator[tuple[str, Gateway]]:
    for source in found.sources:
        name = source.source_ip.metadata.name if source.source_ip is not None else ""
        gateway = world.gateway(name) if name else None
        if gateway is not None:
            yield name, gateway


def _unassigned(found: Resolution, world: EgressModel) -> Iterator[tuple[str, Refusal]]:
    for source in found.working:
        name = source.source_ip.metadata.name if source.source_ip is not None else ""
        verdict = world.assigned(name)
        if verdict.value is None and verdict.refusals:
            yield name, verdict.refusals[0]
