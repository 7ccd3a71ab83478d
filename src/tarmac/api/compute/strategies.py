"""Rules of the compute kinds: shorthands, defaults, the validation catalogue, warnings."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.checks import mapping, objects
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.lookup import Lookup, find_image, find_type
from tarmac.api.compute.machineimage import LocalMachineImage, MachineImage
from tarmac.api.compute.shorthand import follow_changed, normalise_instance, normalise_template, upper_cities
from tarmac.api.compute.validation.context import Context, Stored
from tarmac.api.compute.validation.imagereferences import means_latest
from tarmac.api.compute.validation.instancetypes import check_instance_type
from tarmac.api.compute.validation.machineimages import check_local_machine_image, check_machine_image
from tarmac.api.compute.validation.machines import machine_warnings
from tarmac.api.compute.validation.rollout import check_rollout
from tarmac.api.compute.validation.scaling import MAX_REPLICAS, check_scale_settings
from tarmac.api.compute.validation.template import check_instance, check_template, check_workload
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors


class WorkloadStrategy(OwnStrategy):
    """Rules of Workloads.

    The catalogue words and orders every cause, so the declaration's bounds are not checked separately.
    """

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(Workload)
        self._lookup = lookup

    def normalise(self, obj: JsonObject) -> None:
        """Normalise shorthands of the template; convert city codes to capitals."""
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
        """Make shorthands and their full form equal, if only one of them was changed."""
        super().prepare_for_update(new, old)
        follow_changed(new, old)

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """Check nothing: the catalogue includes the bounds."""

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the rules of the catalogue."""
        check_workload(obj["spec"], Context(errors, self._lookup, _stored(old)))

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Check the bounds, and that revisions name their template.

        Cities roll back to it with rights of the controllers, so it must be one that admission has checked. A template
        itself, from an earlier version, may stay.
        """
        super().validate_status_update(new, old, errors)
        known = {each.get("template") for each in objects(old, "status", "revisions")}
        for index, each in enumerate(objects(new, "status", "revisions")):
            template = each.get("template")
            if template and template not in known and names.dns1123_subdomain(template):
                detail = "must be the name of a ControllerRevision"
                errors.invalid(f"status.revisions[{index}].template", template, detail)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Return warnings about accepted input that is probably a mistake."""
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
    """Rules of WorkloadDeployments, which the Workload's controller makes; their identity never changes."""

    immutable = ("spec.workloadRef", "spec.placementName", "spec.cityCode")

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(WorkloadDeployment)
        self._lookup = lookup

    def normalise(self, obj: JsonObject) -> None:
        """Normalise as for a Workload."""
        spec = obj.get("spec")
        if isinstance(spec, dict):
            normalise_template(spec.get("template"))
            upper_cities(spec, "cityCode")

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """Check nothing: the catalogue includes the bounds."""

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the identity, then the template and scale settings by the catalogue."""
        spec = obj["spec"]
        for field in ("name", "uid"):
            if not mapping(spec, "workloadRef").get(field):
                errors.required(f"spec.workloadRef.{field}")
        for field in ("placementName", "cityCode"):
            if not spec.get(field):
                errors.required(f"spec.{field}")
        # The Workload was admitted already; the existence of places is not checked again.
        context = Context(errors, self._lookup, _stored(old or obj))
        check_template(spec, context)
        check_scale_settings(spec, "spec", errors)
        check_rollout(spec, "spec", errors)
        replicas = spec.get("replicas")
        if replicas is not None and not 0 <= replicas <= MAX_REPLICAS:
            errors.invalid("spec.replicas", replicas, f"must be between 0 and {MAX_REPLICAS}, inclusive")

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Return a warning if replicas are outside the bounds of the placement, for every kind of write."""
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
    """Rules of Instances, which the deployment's controller makes from an admitted template."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(Instance)
        self._lookup = lookup

    def normalise(self, obj: JsonObject) -> None:
        """Normalise as for a template."""
        normalise_instance(obj.get("spec"))

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """Check nothing: the catalogue includes the bounds."""

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the template's rules, without querying the live system again."""
        spec = obj["spec"]
        stored = Stored.of_template_spec(spec if old is None else old["spec"])
        check_instance(spec, "spec", Context(errors, self._lookup, stored))
        controller = spec.get("controller")
        if controller is not None and not controller.get("templateHash"):
            errors.required("spec.controller.templateHash")


class InstanceTypeStrategy(OwnStrategy):
    """Rules of InstanceTypes: sizes never change; the life cycle only moves forward."""

    immutable = ("spec.resources",)

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(InstanceType)
        self._lookup = lookup

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check amounts and life cycle."""
        check_instance_type(obj, old, self._lookup, errors)


class MachineImageStrategy(OwnStrategy):
    """Rules of MachineImages: the source may change; the life cycle only moves forward."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(MachineImage)
        self._lookup = lookup

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check size, files and life cycle."""
        check_machine_image(obj, old, self._lookup, errors)


class LocalMachineImageStrategy(OwnStrategy):
    """Rules of LocalMachineImages: only a URL, a checksum and a bounded size, since tenants name files for nodes."""

    def __init__(self) -> None:
        super().__init__(LocalMachineImage)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check size, URL and checksum."""
        check_local_machine_image(obj["spec"], errors)
