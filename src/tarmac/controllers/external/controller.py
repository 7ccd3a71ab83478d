"""Runs the loops of external services over shared caches."""

from __future__ import annotations

import asyncio

from tarmac.controllers.context import Context
from tarmac.controllers.external.addresses import AddressLoop
from tarmac.controllers.external.claims import ClaimLoop
from tarmac.controllers.external.classes import ClassLoop
from tarmac.controllers.external.figures import ExternalFigures
from tarmac.controllers.external.gateways import GatewayLoop
from tarmac.controllers.external.services import ServiceLoop
from tarmac.controllers.external.stock import Stock
from tarmac.controllers.external.world import CachedWorld


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
