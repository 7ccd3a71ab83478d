"""The images of Instances, as the catalogue has them.

The catalogue is followed from the first Instance on that has a disk made from an image: sandboxes have no need of it,
and go on where a server does not know the kind yet.
"""

from __future__ import annotations

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.machineimage import MachineImage
from tarmac.client.controller import Controller
from tarmac.client.informer import Informer
from tarmac.client.targets.typed import MACHINE_IMAGES
from tarmac.controllers.context import Context
from tarmac.controllers.instance.waiting import Waiting
from tarmac.decide.machineimages import NO_IMAGES, Images, images_named_by, images_of
from tarmac.decide.verdict import Verdict

_KIND = "MachineImage"


class KnownImages:
    """Looks them up, and has the Instance looked at again when one that it waits for changes."""

    def __init__(self, context: Context, waiting: Waiting) -> None:
        self._informers = context.informers
        self._known: Informer[MachineImage] | None = None
        self._waiting = waiting
        self._controller: Controller

    def wake(self, controller: Controller) -> None:
        """Call the controller for Instances whose images change."""
        self._controller = controller

    async def of(self, key: str, instance: Instance) -> Verdict[Images]:
        """What the Instance's disks are made from, or why that cannot be had."""
        if not images_named_by(instance.spec):
            return Verdict(NO_IMAGES)
        if self._known is None:
            self._known = self._informers.informer(MACHINE_IMAGES)
            self._controller.watches(self._known, self._waiting.woken_by(_KIND))
        await self._known.synced()
        found = images_of(instance.spec, self._known.get)
        for refusal in found.refusals:
            # Noted after it was read: both happen without a pause, so no change is missed in between.
            self._waiting.note(key, _KIND, refusal.where)
        return found
