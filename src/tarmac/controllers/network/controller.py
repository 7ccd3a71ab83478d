"""Runs the network controllers: default Networks, Networks, bindings, contexts, claims and subnets."""

from __future__ import annotations

import asyncio

from tarmac.controllers.context import ControllerContext
from tarmac.controllers.network.bindings import BindingController
from tarmac.controllers.network.contexts import ContextController
from tarmac.controllers.network.defaults import DefaultNetworks
from tarmac.controllers.network.networks import NetworkController
from tarmac.controllers.network.podbindings import PodBindingCleaner
from tarmac.controllers.network.subnets import SubnetController
from tarmac.controllers.network.workloadnetworks import WorkloadNetworks


class NetworkControllers:
    """Independent loops that interact only through the objects they write."""

    def __init__(self, context: ControllerContext) -> None:
        self._parts = (
            DefaultNetworks(context) if context.networked else WorkloadNetworks(context),
            NetworkController(context),
            BindingController(context),
            ContextController(context),
            SubnetController(context),
            *((PodBindingCleaner(context),) if context.networked else ()),
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())
