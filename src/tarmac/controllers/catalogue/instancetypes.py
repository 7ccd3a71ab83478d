"""The catalogue of instance types."""

from __future__ import annotations

from tarmac.api.compute.instance import InstanceTemplateSpec
from tarmac.api.compute.instancetype import InstanceType, built_in, object_name
from tarmac.api.compute.names import TYPE_FINALIZER
from tarmac.client.targets.typed import INSTANCE_TYPES
from tarmac.controllers.catalogue.controller import BuiltinCatalogue, CatalogueController
from tarmac.controllers.context import ControllerContext
from tarmac.decide.instancetypes import type_status


class InstanceTypeController(CatalogueController[InstanceType]):
    """Reconciles by the type's name."""

    def __init__(self, context: ControllerContext) -> None:
        catalogue = BuiltinCatalogue(
            name="instancetype",
            target=INSTANCE_TYPES,
            finalizer=TYPE_FINALIZER,
            built_in=built_in(),
            named_by=_type_of,
            status_of=type_status,
        )
        super().__init__(context, catalogue)


def _type_of(spec: InstanceTemplateSpec) -> tuple[str, ...]:
    return (object_name(spec.runtime.resources.instance_type),)
