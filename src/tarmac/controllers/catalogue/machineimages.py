"""The catalogue of machine images."""

from __future__ import annotations

from tarmac.api.compute.instance import InstanceTemplateSpec
from tarmac.api.compute.machineimage import MachineImage, built_in_images, image_object_name, is_local
from tarmac.api.compute.names import IMAGE_FINALIZER
from tarmac.client.targets.typed import MACHINE_IMAGES
from tarmac.controllers.catalogue.controller import BuiltinCatalogue, CatalogueController
from tarmac.controllers.context import ControllerContext
from tarmac.decide.machineimages import image_status, images_named_by


class MachineImageController(CatalogueController[MachineImage]):
    """Reconciles by the image's name."""

    def __init__(self, context: ControllerContext) -> None:
        catalogue = BuiltinCatalogue(
            name="machineimage",
            target=MACHINE_IMAGES,
            finalizer=IMAGE_FINALIZER,
            built_in=built_in_images(),
            named_by=_images_of,
            status_of=image_status,
        )
        super().__init__(context, catalogue)


def _images_of(spec: InstanceTemplateSpec) -> list[str]:
    return [image_object_name(name) for name in images_named_by(spec) if not is_local(name)]
