"""Runs the loops of external services over shared caches."""

from __future__ import annotations

import asyncio

from tarmac.controllers.context import Context
from tarmac.controllers.egress.addressclasses import ClassLoop
from tarmac.controllers.egress.addresses import AddressLoop
from tarmac.controllers.egress.cachedmodel import CachedWorld
from tarmac.controllers.egress.caches import Stock
from tarmac.controllers.egress.claims import ClaimLoop
from tarmac.controllers.egress.egressmetrics import ExternalFigures
from tarmac.controllers.egress.gateways import GatewayLoop
from tarmac.controllers.egress.services import ServiceLoop


class ExternalController:
    """Reconciles claims by class; addresses, classes and Gateways by name; ExternalServices by key."""

    def __init__(self, context: Context) -> None:
        stock = Stock(context)
        world = CachedWorld(context, stock)
        gateways = GatewayLoop(context, stock, world)
        services = ServiceLoop(context, stock, world, gateways)
        figures = ExternalFigures(stock)
        context.metrics.others.append(figures.families)
        self._loops = (
            ClaimLoop(context, stock, world, figures.bound),
            AddressLoop(context, stock),
            ClassLoop(context, stock),
            gateways,
            services,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.controller.run())
