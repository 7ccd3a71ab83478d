"""The RFC's own manifests, and those we ship."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.api.catalog import build_catalog
from tarmac.api.decode.bodies import decode_object
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tests.api.compute.making import World, causes, errors_of, machines, resource, workload

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
T = "spec.template.spec"


@pytest.fixture
def full() -> JsonObject:
    raw = (HERE / "rfc_full_example.yaml").read_bytes()
    return decode_object(resource("Workload"), raw, "application/yaml", "Strict").obj


FULL_CAUSES = [
    f"Forbidden {T}.runtime.virtualMachine",
    f"Forbidden {T}.runtime.resources.requests",
    f"Invalid {T}.runtime.sandbox.containers[1].resources.requests[memory]",
    "Duplicate spec.placements[3].name",
]


def test_the_full_example_is_refused_with_exactly_these_causes(full: JsonObject) -> None:
    assert causes(full) == FULL_CAUSES


def test_cities_that_no_location_has_come_on_top(full: JsonObject) -> None:
    unknown = [f"NotSupported spec.placements[{index}].cityCodes[{city}]" for index in (1, 2) for city in (0, 1)]
    assert causes(full, lookup=World()) == [*FULL_CAUSES[:3], *unknown, FULL_CAUSES[3]]


def test_causes_say_what_would_be_accepted(full: JsonObject) -> None:
    texts = [error.message for error in errors_of(full)]
    assert texts[1].endswith("such as datumcloud/d1-custom")
    assert texts[2] == 'Invalid value: "256m": must be a whole number of bytes; did you mean 256Mi?'


def test_the_minimum_container_example_does_not_name_its_registry() -> None:
    containers = [{"name": "httpbin", "image": "mccutchen/go-httpbin"}]
    obj = workload({f"{T}.runtime.sandbox.containers": containers, f"{T}.volumes": []})
    (error,) = errors_of(obj)
    assert error.path == f"{T}.runtime.sandbox.containers[0].image"
    assert error.detail == "must include a registry, e.g. docker.io/mccutchen/go-httpbin"


def test_the_minimum_machine_example_is_accepted_with_a_warning() -> None:
    obj = machines()
    assert causes(obj) == []
    strategy = resource("Workload").strategy
    strategy.normalise(obj)
    (warning,) = strategy.warnings(obj, None)
    assert warning.startswith("spec.template.annotations[compute.datumapis.com/ssh-keys]: not set")


def shipped() -> Iterator[Any]:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield pytest.param(document, id=f"{path.stem}-{document['kind']}")


@pytest.mark.parametrize("document", list(shipped()))
def test_shipped_examples_are_accepted(document: JsonObject) -> None:
    group, _, version = document["apiVersion"].rpartition("/")
    served = build_catalog().find_kind(group, version, document["kind"])
    assert served is not None
    obj = decode_object(served, yaml.safe_dump(document).encode(), "application/yaml", "Strict").obj
    served.strategy.default(obj)
    errors = FieldErrors()
    served.strategy.validate(obj, errors)
    assert [str(error) for error in errors] == []
