"""Rules of the compute kinds: shorthands, defaults, the validation catalogue, warnings."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.lookup import Lookup, find_image, find_type
from tarmac.api.compute.machineimage import MachineImage
from tarmac.api.compute.shorthand import follow_changed, normalise_instance, normalise_template, upper_cities
from tarmac.api.compute.validation.context import Context, Stored
from tarmac.api.compute.validation.images import means_latest
from tarmac.api.compute.validation.instancetypes import check_instance_type
from tarmac.api.compute.validation.machineimages import check_machine_image
from tarmac.api.compute.validation.machinewarnings import machine_warnings
from tarmac.api.compute.validation.rollout import check_rollout
from tarmac.api.compute.validation.scaling import MAX_REPLICAS, check_scale_settings
from tarmac.api.compute.validation.template import check_instance, check_template, check_workload
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


class WorkloadStrategy(OwnStrategy):
    """Every cause is worded and ordered by the catalogue, so the declaration's bounds are not checked on their own."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(Workload)
        self._lookup = lookup

    def normalise(self, obj: JsonObject) -> None:
        """Shorthands of the template; city codes in capitals."""
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            return
        normalise_template(spec.get("template"))
        placements = spec.get("placements")
        for placement in placements if isinstance(placements, list) else ():
            if isinstance(placement, dict):
                upper_cities(placement, "cityCodes")
                upper_cities(placement.get("onCityLoss"), "cities")

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        """Shorthands and their full form, of which only one may have been changed."""
        super().prepare_for_update(new, old)
        follow_changed(new, old)

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """Part of the catalogue."""

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """The catalogue."""
        check_workload(obj["spec"], Context(errors, self._lookup, _stored(old)))

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Accepted, but probably not meant."""
        return list(_template_warnings(mapping(obj, "spec", "template"), self._lookup))


def _stored(old: JsonObject | None) -> Stored:
    if old is None:
        return Stored()
    return Stored.of_template_spec(mapping(old, "spec", "template", "spec"), objects(old, "spec", "placements"))


def _template_warnings(template: JsonObject, lookup: Lookup) -> Iterator[str]:
    runtime = mapping(template, "spec", "runtime")
    path = "spec.template.spec.runtime"
    for field in ("containers", "initContainers"):
        for index, container in enumerate(objects(runtime, "sandbox", field)):
            image = container.get("image", "")
            if means_latest(image):
                yield f'{path}.sandbox.{field}[{index}].image: "{image}" has no tag and means latest, which changes'
    if runtime.get("virtualMachine") is not None:
        yield from machine_warnings(template, lookup)
    written = mapping(runtime, "resources").get("instanceType", "")
    facts = find_type(lookup, written)
    if facts is not None and facts.phase == "Deprecated":
        yield f'{path}.resources.instanceType: "{written}" is deprecated; use {facts.replacement}'
    for index, volume in enumerate(objects(template, "spec", "volumes")):
        name = mapping(volume, "disk", "template", "spec", "populator", "image").get("name", "")
        image = find_image(lookup, name) if name else None
        if image is not None and image.phase == "Deprecated":
            where = f"spec.template.spec.volumes[{index}].disk.template.spec.populator.image.name"
            yield f'{where}: "{name}" is deprecated; use {image.replacement}'


class WorkloadDeploymentStrategy(OwnStrategy):
    """Made by the Workload's controller; its identity never changes."""

    immutable = ("spec.workloadRef", "spec.placementName", "spec.cityCode")

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(WorkloadDeployment)
        self._lookup = lookup

    def normalise(self, obj: JsonObject) -> None:
        """As for a Workload."""
        spec = obj.get("spec")
        if isinstance(spec, dict):
            normalise_template(spec.get("template"))
            upper_cities(spec, "cityCode")

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """Part of the catalogue."""

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Identity, then the template and scale settings by the catalogue."""
        spec = obj["spec"]
        for field in ("name", "uid"):
            if not mapping(spec, "workloadRef").get(field):
                errors.required(f"spec.workloadRef.{field}")
        for field in ("placementName", "cityCode"):
            if not spec.get(field):
                errors.required(f"spec.{field}")
        # The Workload was admitted already; places are no longer asked about here.
        context = Context(errors, self._lookup, _stored(old or obj))
        check_template(spec, context)
        check_scale_settings(spec, "spec", errors)
        check_rollout(spec, "spec", errors)
        replicas = spec.get("replicas")
        if replicas is not None and not 0 <= replicas <= MAX_REPLICAS:
            errors.invalid("spec.replicas", replicas, f"must be between 0 and {MAX_REPLICAS}, inclusive")

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Numbers that the bounds of the placement do not let be, whichever way they were written."""
        replicas, settings = obj["spec"].get("replicas"), mapping(obj, "spec", "scaleSettings")
        if replicas is None:
            return []
        low, high = settings.get("minReplicas", replicas), settings.get("maxReplicas") or MAX_REPLICAS
        if replicas < low:
            return [f"spec.replicas: {replicas} is less than minReplicas, so {low} will run"]
        if replicas > high:
            return [f"spec.replicas: {replicas} is more than maxReplicas, so {high} will run"]
        return []


class InstanceStrategy(OwnStrategy):
    """Made by the deployment's controller from a template that was admitted already."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(Instance)
        self._lookup = lookup

    def normalise(self, obj: JsonObject) -> None:
        """As for a template."""
        normalise_instance(obj.get("spec"))

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """Part of the catalogue."""

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """The template's rules, without asking the live system again."""
        spec = obj["spec"]
        stored = Stored.of_template_spec(spec if old is None else old["spec"])
        check_instance(spec, "spec", Context(errors, self._lookup, stored))
        controller = spec.get("controller")
        if controller is not None and not controller.get("templateHash"):
            errors.required("spec.controller.templateHash")


class InstanceTypeStrategy(OwnStrategy):
    """Sizes never change; the life cycle only moves forward."""

    immutable = ("spec.resources",)

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(InstanceType)
        self._lookup = lookup

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Amounts and life cycle."""
        check_instance_type(obj, old, self._lookup, errors)


class MachineImageStrategy(OwnStrategy):
    """Where an image is to be had may change; its life cycle only moves forward."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(MachineImage)
        self._lookup = lookup

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Size, files and life cycle."""
        check_machine_image(obj, old, self._lookup, errors)
