"""Workloads for tests: valid ones, edits by path, and the causes that validation finds."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tarmac.api.compute import resources as compute
from tarmac.api.compute.lookup import BuiltIn, ImageFacts, Lookup, TypeFacts
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

T = "spec.template.spec"
C = f"{T}.runtime.sandbox.containers"
V = f"{T}.runtime.virtualMachine"
P = "spec.placements[0]"
S = f"{P}.scaleSettings"
R = f"{T}.runtime.resources"
N = f"{T}.networkInterfaces"
DISK = f"{T}.volumes[0].disk"
SPEC = f"{DISK}.template.spec"
GONE = object()

Row = tuple[str, dict[str, Any], list[str]]
"""A rule of the catalogue: its name, an edit of a valid workload, the causes it brings."""

_CONTAINERS: JsonObject = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "Workload",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "template": {
            "metadata": {"labels": {"tier": "app"}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {
                        "containers": [
                            {
                                "name": "app",
                                "image": "ghcr.io/acme/app:1",
                                "volumeAttachments": [{"name": "data", "mountPath": "/data"}],
                                "ports": [{"name": "http", "port": 80}],
                            },
                            {"name": "sidecar", "image": "ghcr.io/acme/sidecar:1"},
                        ]
                    },
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [
                    {
                        "name": "data",
                        "disk": {
                            "template": {
                                "spec": {
                                    "populator": {"filesystem": {"type": "ext4"}},
                                    "resources": {"requests": {"storage": "10Gi"}},
                                }
                            }
                        },
                    }
                ],
            },
        },
        "placements": [{"name": "us", "cityCodes": ["DFW", "SEA"], "scaleSettings": {"minReplicas": 1}}],
    },
}

_MACHINE_SPEC: JsonObject = {
    "runtime": {
        "resources": {"instanceType": "datumcloud/d1-standard-2"},
        "virtualMachine": {"volumeAttachments": [{"name": "boot"}]},
    },
    "networkInterfaces": [{"network": "default"}],
    "volumes": [
        {
            "name": "boot",
            "disk": {"template": {"spec": {"populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}}}}},
        }
    ],
}


class World:
    """A live system for tests: the built-in types and a deprecated and a disabled one, two cities."""

    def __init__(self, cities: Collection[str] = ("DFW", "SEA"), locations: Collection[str] = ("dfw", "sea")) -> None:
        self._cities, self._locations = cities, locations
        amounts = {"cpu": Quantity.parse("1"), "memory": Quantity.parse("1Gi")}
        retired = {
            "old": TypeFacts(amounts, "Deprecated", "datumcloud-d1-standard-1"),
            "gone": TypeFacts(amounts, "Disabled", "datumcloud-d1-standard-1"),
        }
        self._types = {**BuiltIn().instance_types(), **retired}
        large = Quantity.parse("30Gi")
        self._images = {
            **BuiltIn().machine_images(),
            "old": ImageFacts(large, "Deprecated", "tarmac-tiny"),
            "gone": ImageFacts(large, "Disabled", "tarmac-tiny"),
            "mute": ImageFacts(large, configurable=False),
        }

    def instance_types(self) -> Mapping[str, TypeFacts]:
        return self._types

    def machine_images(self) -> Mapping[str, ImageFacts]:
        return self._images

    def cities(self) -> Collection[str] | None:
        return self._cities

    def locations(self) -> Collection[str] | None:
        return self._locations


def resource(kind: str, lookup: Lookup | None = None) -> Resource:
    """One of the compute kinds."""
    (found,) = [item for item in compute.resources(lookup) if item.kind == kind]
    return found


def workload(edits: Mapping[str, Any] | None = None) -> JsonObject:
    """A valid workload of two containers, with edits by path."""
    return edited(_CONTAINERS, edits or {})


def machines(edits: Mapping[str, Any] | None = None) -> JsonObject:
    """A valid workload of virtual machines, with edits by path."""
    return edited(edited(_CONTAINERS, {T: copy.deepcopy(_MACHINE_SPEC)}), edits or {})


def edited(obj: JsonObject, edits: Mapping[str, Any]) -> JsonObject:
    """A copy in which each path (`spec.placements[0].name`) holds the given value; GONE removes it."""
    result = copy.deepcopy(obj)
    for path, value in edits.items():
        *steps, last = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", path)]
        owner: Any = result
        for step in steps:
            owner = owner[step] if isinstance(step, int) else owner.setdefault(step, {})
        if value is GONE:
            del owner[last]
        elif isinstance(last, int) and last == len(owner):
            owner.append(value)
        else:
            owner[last] = value
    return result


def admitted(obj: JsonObject, kind: str = "Workload") -> JsonObject:
    """The object as it would be stored, shorthands rewritten and defaults filled in."""
    result = copy.deepcopy(obj)
    strategy = resource(kind).strategy
    strategy.normalise(result)
    strategy.default(result)
    strategy.prepare_for_create(result)
    return result


def errors_of(
    obj: JsonObject, *, kind: str = "Workload", lookup: Lookup | None = None, old: JsonObject | None = None
) -> FieldErrors:
    """Return all errors of an object."""
    errors = FieldErrors()
    strategy = resource(kind, lookup).strategy
    new = admitted(obj, kind)
    if old is None:
        strategy.validate(new, errors)
    else:
        stored = admitted(old, kind)
        strategy.prepare_for_update(new, stored)
        strategy.validate_update(new, stored, errors)
    return errors


def causes(
    obj: JsonObject, *, kind: str = "Workload", lookup: Lookup | None = None, old: JsonObject | None = None
) -> list[str]:
    """Return all errors of an object, as "Kind path" lines in order."""
    return [f"{error.kind} {error.path}" for error in errors_of(obj, kind=kind, lookup=lookup, old=old)]


def identified(rows: list[Row]) -> list[Any]:
    """Rows as test parameters that are known by their names."""
    return [pytest.param(edits, expected, id=name) for name, edits, expected in rows]
