"""Runs the loops of external services over shared caches."""

from __future__ import annotations

import asyncio

from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.addressclasses import AddressClassLoop
from tarmac.controllers.egress.addresses import AddressLoop
from tarmac.controllers.egress.cachedmodel import CachedEgressModel
from tarmac.controllers.egress.caches import EgressCaches
from tarmac.controllers.egress.claims import ClaimLoop
from tarmac.controllers.egress.egressmetrics import EgressMetrics
from tarmac.controllers.egress.gateways import GatewayLoop
from tarmac.controllers.egress.services import ServiceLoop


class EgressController:
    """Reconciles claims by class; addresses, classes and Gateways by name; ExternalServices by key."""

    def __init__(self, context: ControllerContext) -> None:
        caches = EgressCaches(context)
        model = CachedEgressModel(context, caches)
        gateways = GatewayLoop(context, caches, model)
        services = ServiceLoop(context, caches, model, gateways)
        egress_metrics = EgressMetrics(caches)
        context.metrics.others.append(egress_metrics.families)
        self._loops = (
            ClaimLoop(context, caches, model, egress_metrics.bound),
            AddressLoop(context, caches),
            AddressClassLoop(context, caches),
            gateways,
            services,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.controller.run())
