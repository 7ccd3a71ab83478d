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
        stock = EgressCaches(context)
        world = CachedEgressModel(context, stock)
        gateways = GatewayLoop(context, stock, world)
        services = ServiceLoop(context, stock, world, gateways)
        figures = EgressMetrics(stock)
        context.metrics.others.append(figures.families)
        self._loops = (
            ClaimLoop(context, stock, world, figures.bound),
            AddressLoop(context, stock),
            AddressClassLoop(context, stock),
            gateways,
            services,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.controller.run())
