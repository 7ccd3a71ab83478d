"""Runs the loops of public addresses over shared caches."""

from __future__ import annotations

import asyncio

from tarmac.client.controller import Controller
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.ingress.addresses import PublicAddressLoop
from tarmac.controllers.ingress.addressmetrics import IngressMetrics
from tarmac.controllers.ingress.caches import IngressCaches
from tarmac.controllers.ingress.claims import IngressClaimLoop
from tarmac.controllers.ingress.leasemembers import MemberLoop
from tarmac.controllers.ingress.loadbalancerstatus import ServiceStatusLoop
from tarmac.controllers.ingress.pools import AddressPoolLoop, PeerLoop
from tarmac.controllers.ingress.workloads import WorkloadStatusLoop


class IngressController:
    """Reconciles claims in one pass; addresses, their members, pools and peers by name; Services and Workloads by key.

    With the feature gate WayIn off it does nothing.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._controllers: tuple[Controller, ...] = _controllers(context) if context.settings.way_in else ()

    async def run(self) -> None:
        """Work until cancelled."""
        if not self._controllers:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            for each in self._controllers:
                group.create_task(each.run())


def _controllers(context: ControllerContext) -> tuple[Controller, ...]:
    caches = IngressCaches(context)
    context.metrics.others.append(IngressMetrics(caches).families)
    claims = IngressClaimLoop(context, caches)
    loops = (
        claims,
        PublicAddressLoop(context, caches),
        MemberLoop(context, caches),
        AddressPoolLoop(context, caches),
        PeerLoop(context, caches),
        ServiceStatusLoop(context, caches, claims),
        WorkloadStatusLoop(context, caches, claims),
    )
    return tuple(each.controller for each in loops)
