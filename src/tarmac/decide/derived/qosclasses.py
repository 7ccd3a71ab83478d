"""The classes that an Instance takes, read from its template's annotations as its Pod's will be."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.compute.instance import InstanceRuntime, InstanceTemplate
from tarmac.api.kubernetes.core.pods.podclasses import class_annotations
from tarmac.api.schema import JsonObject
from tarmac.decide.derived.machines import MACHINE_CONTAINER
from tarmac.decide.qosclasses.counting import Places, places


def instance_places(annotations: Mapping[str, str], runtime: InstanceRuntime) -> Places:
    """Return the number of places of each class that an Instance takes."""
    requested = class_annotations(annotations)
    return places({"metadata": {"annotations": requested}, "spec": _containers(runtime)}) if requested else {}


def template_places(template: InstanceTemplate) -> Places:
    """Return the number of places of each class that an Instance of this template will take."""
    return instance_places(template.metadata.annotations if template.metadata else {}, template.spec.runtime)


def _containers(runtime: InstanceRuntime) -> JsonObject:
    if runtime.sandbox is None:
        return {"containers": [{"name": MACHINE_CONTAINER}]}
    return {
        "initContainers": [{"name": each.name} for each in runtime.sandbox.init_containers],
        "containers": [{"name": each.name} for each in runtime.sandbox.containers],
    }
