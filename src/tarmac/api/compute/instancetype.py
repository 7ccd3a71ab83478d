"""InstanceType: named sizes of instances, and the built-in catalogue of them."""

from __future__ import annotations

from typing import Annotated, Literal

from tarmac.api.compute.names import API_VERSION
from tarmac.api.declare import Field, Struct
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Conditions, Kind, ObservedGeneration, ResourceList, Time

Phase = Literal["Active", "Deprecated", "Disabled"]


class InstanceTypeLifecycle(Struct):
    """Life cycle of the type."""

    phase: Annotated[
        Phase, Field("Moves forward only: Active, Deprecated (still works, warns), Disabled.", stored=True)
    ] = "Active"
    replacement_instance_type: Annotated[str, Field("The replacement; required once not Active.")] = ""


class InstanceTypeSpec(Struct):
    """The spec of an instance type."""

    display_name: Annotated[str, Field("Name for people.")] = ""
    description: Annotated[str, Field("Its purpose.")] = ""
    resources: Annotated[
        ResourceList,
        Field("cpu and memory of an instance, both above zero. Empty for a custom type. Cannot be changed."),
    ] = {}
    lifecycle: Annotated[InstanceTypeLifecycle | None, Field("Whether it may still be used; by default Active.")] = None


class InstanceTypeStatus(Struct):
    """The type as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    deprecated_at: Annotated[Time | None, Field("When it was deprecated.")] = None


class InstanceType(Kind):
    """A named size of instances. `datumcloud/d1-standard-2` in a Workload names `datumcloud-d1-standard-2`."""

    spec: Annotated[InstanceTypeSpec, Field("Resources of an instance of the type.")]
    status: Annotated[InstanceTypeStatus | None, Field("The type as it is.")] = None


CUSTOM_SUFFIX = "-custom"

# name -> (cpu, memory); one CPU for each Gi, so that the smallest machines stay cheap
_STANDARD_SIZES = {f"datumcloud-d1-standard-{cpu}": (str(cpu), f"{cpu}Gi") for cpu in (1, 2, 4, 8, 16, 32)}


def object_name(instance_type: str) -> str:
    """Return the name of the InstanceType object for a name as written in a Workload."""
    return instance_type.replace("/", "-")


def is_custom(instance_type: str) -> bool:
    """Return True if the amounts are given beside the name."""
    return instance_type.endswith(CUSTOM_SUFFIX)


def built_in() -> list[JsonObject]:
    """Return the built-in catalogue."""
    fixed = [_standard(name, cpu, memory) for name, (cpu, memory) in _STANDARD_SIZES.items()]
    text = "CPU and memory as requested beside the name."
    custom = {"displayName": "d1 custom", "description": text, "lifecycle": {"phase": "Active"}}
    return [*fixed, _document("datumcloud-d1-custom", custom)]


def _standard(name: str, cpu: str, memory: str) -> JsonObject:
    return _document(
        name,
        {
            "displayName": name.removeprefix("datumcloud-").replace("-", " "),
            "description": f"General purpose: {cpu} CPU, {memory} memory.",
            "resources": {"cpu": cpu, "memory": memory},
            "lifecycle": {"phase": "Active"},
        },
    )


def _document(name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": API_VERSION, "kind": "InstanceType", "metadata": {"name": name}, "spec": spec}
