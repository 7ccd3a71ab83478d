"""Machine images of Instances, resolved through the catalogue.

The catalogue is watched only once an Instance has a disk made from an image: sandboxes do not need it, and run even
where the server does not have the kind yet.
"""

from __future__ import annotations

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.machineimage import LocalMachineImage, MachineImage, image_object_name, is_local
from tarmac.api.networking.location import Location, is_simulated
from tarmac.client.controller import Controller
from tarmac.client.informer import Informer
from tarmac.client.targets.typed import LOCAL_MACHINE_IMAGES, LOCATIONS, MACHINE_IMAGES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.instance.dependents import DependentIndex
from tarmac.decide.machineimages import NO_IMAGES, Images, images_named_by, images_of
from tarmac.decide.verdict import Verdict

_KIND, _LOCAL_KIND = "MachineImage", "LocalMachineImage"


class KnownImages:
    """Looks up images, and requeues the Instance when an image that it waits for changes."""

    def __init__(self, context: ControllerContext, dependents: DependentIndex) -> None:
        self._informers = context.informers
        self._known: Informer[MachineImage] | None = None
        self._known_local: Informer[LocalMachineImage] | None = None
        self._locations: Informer[Location]
        self._dependents = dependents
        self._controller: Controller

    def wake(self, controller: Controller) -> None:
        """Set the controller to call for Instances whose images change."""
        self._controller = controller

    async def of(self, key: str, instance: Instance) -> Verdict[Images]:
        """Return the images of the Instance's disks, or the reason why one is unavailable."""
        if not images_named_by(instance.spec):
            return Verdict(NO_IMAGES)
        if self._known is None:
            self._known = self._informers.informer(MACHINE_IMAGES)
            self._controller.watches(self._known, self._dependents.woken_by(_KIND))
            self._locations = self._informers.informer(LOCATIONS)
        # Until the first list, every image would look unknown.
        await self._known.synced()
        await self._locations.synced()
        own = await self._local() if any(map(is_local, images_named_by(instance.spec))) else None
        place = self._locations.get(instance.spec.location.name) if instance.spec.location is not None else None
        found = images_of(
            instance.spec,
            self._known.get,
            lambda name: own.get(f"{instance.metadata.namespace}/{name}") if own is not None else None,
            simulated=is_simulated(place),
        )
        for refusal in found.refusals:
            # Noted after the read, without an await in between, so no change is missed.
            if is_local(refusal.where):
                name = f"{instance.metadata.namespace}/{image_object_name(refusal.where)}"
                self._dependents.note(key, _LOCAL_KIND, name)
            else:
                self._dependents.note(key, _KIND, refusal.where)
        return found

    async def _local(self) -> Informer[LocalMachineImage]:
        """Return the synced informer of namespaced images, starting it when an Instance first names one."""
        if self._known_local is None:
            self._known_local = self._informers.informer(LOCAL_MACHINE_IMAGES)
            self._controller.watches(self._known_local, self._dependents.woken_by(_LOCAL_KIND))
        await self._known_local.synced()
        return self._known_local
