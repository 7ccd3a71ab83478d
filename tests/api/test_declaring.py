"""A kind is declared once; schema, defaults, typed decoding and columns follow from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from tarmac.api.columns import AGE, column, condition, join, lookup
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import built_in
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.constraints import check
from tarmac.api.declare import Field, IntOrString, Struct, decode, encode, fill_defaults, schema_of
from tarmac.api.resource import Age
from tarmac.api.schema import JsonObject, Type
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity
from tests.api.checking import causes, served
from tests.api.compute.making import N, admitted, workload


class Wheel(Struct):
    """A wheel."""

    place: Annotated[str, Field("Where it sits.")]
    size: Annotated[Quantity | None, Field("How large.")] = None


class Car(Struct):
    """A car,
    for tests."""

    maker_name: Annotated[str, Field("Who made it.", pattern="^[A-Z]", max_length=9)]
    wheels: Annotated[list[Wheel], Field("Its wheels.", key="place", min_items=1)]
    colour: Annotated[Literal["red", "blue"], Field("Paint.", stored=True)] = "red"
    tags: Annotated[list[str], Field("Words.", unique=True)] = msgspec.field(default_factory=list)
    doors: Annotated[IntOrString | None, Field("How many.")] = None
    seats: Annotated[int, Field("Seats.", minimum=1, maximum=9)] = 4
    vin: Annotated[str, Field("Number.")] = msgspec.field(name="VIN", default="")


CAR: JsonObject = {"makerName": "Acme", "wheels": [{"place": "left"}]}


def test_the_schema_says_what_the_declaration_says() -> None:
    schema = schema_of(Car)
    assert schema.description == "A car, for tests."
    assert schema.required == ("makerName", "wheels")
    assert list(schema.fields) == ["makerName", "wheels", "colour", "tags", "doors", "seats", "VIN"]
    wheels = schema.fields["wheels"]
    assert (wheels.list_type, wheels.list_map_keys, wheels.description) == ("map", ("place",), "Its wheels.")
    assert wheels.items is not None
    assert wheels.items.fields["size"].type is Type.QUANTITY
    assert schema.fields["tags"].list_type == "set"
    assert schema.fields["doors"].type is Type.INT_OR_STRING
    assert (schema.fields["colour"].enum, schema.fields["colour"].default) == (("red", "blue"), "red")
    assert schema.fields["VIN"].default is None


def test_only_marked_defaults_are_stored() -> None:
    car = dict(CAR)
    fill_defaults(car, schema_of(Car))
    assert car == {**CAR, "colour": "red"}
    assert decode(Car, car).seats == 4


def test_a_workload_is_stored_as_it_was_written() -> None:
    obj = workload({f"{N}[0].name": "eth0"})
    assert admitted(obj) == obj


BROKEN: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"makerName": None}, ["car.makerName: Required value"]),
    ({"makerName": "acme"}, ["car.makerName: Invalid value: \"acme\": car.makerName in body should match '^[A-Z]'"]),
    ({"makerName": "A" * 10}, ["car.makerName: Too long: may not be more than 9 bytes"]),
    ({"colour": "green"}, ['car.colour: Unsupported value: "green": supported values: "red", "blue"']),
    ({"wheels": []}, ["car.wheels: Invalid value: 0: car.wheels in body should have at least 1 items"]),
    ({"wheels": [{"place": "a"}, {"place": "a"}]}, ['car.wheels[1]: Duplicate value: {"place":"a"}']),
    ({"tags": ["a", "a"]}, ['car.tags[1]: Duplicate value: "a"']),
    ({"seats": 0}, ["car.seats: Invalid value: 0: car.seats in body should be greater than or equal to 1"]),
]


@pytest.mark.parametrize(("changes", "expected"), BROKEN)
def test_bounds_are_worded_as_for_crds(changes: dict[str, Any], expected: list[str]) -> None:
    errors = FieldErrors()
    check({**CAR, **changes}, schema_of(Car), "car", errors)
    assert [str(error) for error in errors] == expected


def test_typed_decoding_and_back() -> None:
    car = decode(Car, {**CAR, "wheels": [{"place": "left", "size": "17k"}], "unknown": 1})
    assert car.wheels[0].size == Quantity.parse("17000")
    assert (car.colour, car.seats, car.doors) == ("red", 4, None)
    assert encode(car) == {"makerName": "Acme", "wheels": [{"place": "left", "size": "17k"}]}


def test_a_stored_workload_is_typed_for_controllers() -> None:
    obj = decode(Workload, admitted(workload()))
    assert obj.spec.placements[0].scale_settings.min_replicas == 1
    assert obj.spec.template.spec.network_interfaces[0].network.name == "default"


def test_every_kind_has_a_schema_with_metadata_and_a_published_name() -> None:
    for kind in (Workload, WorkloadDeployment, Instance):
        schema = served(kind.__name__).schema
        assert schema.name == f"com.datumapis.compute.v1alpha.{kind.__name__}"
        assert "managedFields" in schema.fields["metadata"].fields


def test_the_built_in_catalogue_is_valid() -> None:
    catalogue = built_in()
    assert all(causes(item) == [] for item in catalogue)
    (small,) = [item for item in catalogue if item["metadata"]["name"] == "datumcloud-d1-standard-2"]
    assert small["spec"]["resources"] == {"cpu": "2", "memory": "2Gi"}
    assert "datumcloud-d1-custom" in {item["metadata"]["name"] for item in catalogue}


ROW: JsonObject = {
    "metadata": {"name": "x", "creationTimestamp": "2026-11-15T12:00:00Z"},
    "status": {"list": [{"a": 1}, {"a": 2}], "conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}]},
}


def test_cells() -> None:
    assert lookup(ROW, ".status.list[1].a") == 2
    assert lookup(ROW, ".status.list[7].a") is None
    assert column("A", ".status.list[0].a", "").value(ROW) == 1
    assert join("A", ".status.list[*].a", "").value(ROW) == "1,2"
    assert condition("Ready", "Ready", "").value(ROW) == "True"
    assert condition("Ready", "Ready", "", field="reason").value({}) is None
    assert AGE.value(ROW) == Age(ROW["metadata"]["creationTimestamp"])


def test_columns_are_those_that_users_expect() -> None:
    def shown(kind: str) -> list[str]:
        return [item.name.upper() for item in served(kind).columns if item.priority == 0]

    assert shown("Workload") == ["NAME", "READY", "UP-TO-DATE", "CITIES", "STATUS", "REASON", "AGE"]
    assert shown("WorkloadDeployment") == ["NAME", "CITY", "READY", "DESIRED", "STATUS", "REASON", "AGE"]
    assert shown("Instance") == ["NAME", "CITY", "NODE", "STATUS", "RESTARTS", "IP", "AGE"]
    assert shown("ExternalService") == ["NAME", "TARGET", "PORTS", "SOURCES", "GATEWAY", "READY", "AGE"]
