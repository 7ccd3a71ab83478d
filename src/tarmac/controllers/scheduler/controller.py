"""Runs both schedulers on one copy of the cluster."""

from __future__ import annotations

import asyncio

from tarmac.api.identities import DEPLOYMENT_SCHEDULER, POD_SCHEDULER
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.scheduler.deployments import DeploymentScheduler
from tarmac.controllers.scheduler.foreignbindings import ForeignBindings
from tarmac.controllers.scheduler.interfaces import PodInterfaceAssigner
from tarmac.controllers.scheduler.pods import PodScheduler
from tarmac.controllers.scheduler.state import SchedulerState


class Schedulers:
    """Assigns Locations to deployments, nodes to pods, and interfaces to pods without an Instance."""

    def __init__(self, context: ControllerContext) -> None:
        for_pods = context.acting_as(POD_SCHEDULER)
        schedulers, classes = frozenset(context.settings.scheduler_names), context.settings.class_resources
        state = SchedulerState(for_pods.client, context.informers, schedulers, classes=classes)
        interfaces = PodInterfaceAssigner(for_pods)
        self._deployments = DeploymentScheduler(context.acting_as(DEPLOYMENT_SCHEDULER), state)
        self._pods = PodScheduler(for_pods, state, interfaces)
        self._foreign_bindings = ForeignBindings(for_pods, interfaces)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deployments.run())
            group.create_task(self._pods.run())
            group.create_task(self._foreign_bindings.run())
