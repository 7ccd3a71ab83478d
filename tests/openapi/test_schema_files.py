"""JSON schemas as files: those of the server, complete, and with every field that the examples use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.cache import ROOT
from tools.schemas import FOLDER, schemas

_EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def served() -> dict[str, str]:
    return schemas()


def test_the_files_are_the_schemas_that_the_server_serves(served: dict[str, str]) -> None:
    files = {str(path.relative_to(FOLDER)): path.read_text() for path in FOLDER.rglob("*.json")}
    assert sorted(files) == sorted(served)
    stale = [name for name, text in served.items() if files[name] != text]
    assert stale == [], "python -m tools.schemas writes them anew"


def test_every_reference_leads_to_a_definition_of_the_same_file(served: dict[str, str]) -> None:
    for name, text in served.items():
        schema = json.loads(text)
        targets = {each.removeprefix("#/definitions/") for each in references(schema)}
        assert targets == schema["definitions"].keys(), name


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.name)
def test_every_field_of_an_example_is_in_the_schema(example: Path, served: dict[str, str]) -> None:
    for document in yaml.safe_load_all(example.read_text()):
        group, _, version = document["apiVersion"].rpartition("/")
        text = served.get(f"{group}/{document['kind'].lower()}_{version}.json")
        if text is not None:
            schema = json.loads(text)
            assert list(unknown(document, schema, schema["definitions"], document["kind"])) == []


def test_an_unknown_field_is_noticed(served: dict[str, str]) -> None:
    schema = json.loads(served["compute.datumapis.com/workload_v1alpha.json"])
    wrong = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "spec": {"cities": ["DFW"]}}
    assert list(unknown(wrong, schema, schema["definitions"], "Workload")) == ["Workload.spec.cities"]


def references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, each in schema.items():
            if name == "$ref":
                yield each
            else:
                yield from references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from references(each)


def unknown(value: Any, schema: dict[str, Any], definitions: dict[str, Any], path: str) -> Iterator[str]:
    """Fields of a document that its schema does not have."""
    for each in (schema, *schema.get("allOf", ()), *schema.get("anyOf", ())):
        if "properties" in each:
            schema = each
        elif "$ref" in each:
            schema = definitions[each["$ref"].removeprefix("#/definitions/")]
    if isinstance(value, list):
        for each in value:
            yield from unknown(each, schema.get("items", {}), definitions, f"{path}[]")
    elif isinstance(value, dict) and "properties" in schema:
        for name, each in value.items():
            if name not in schema["properties"]:
                yield f"{path}.{name}"
            else:
                yield from unknown(each, schema["properties"][name], definitions, f"{path}.{name}")
