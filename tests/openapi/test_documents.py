"""OpenAPI documents are consistent, and contain the extensions that kubectl reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tarmac.api.catalog import Catalog, build_catalog
from tarmac.api.decode.protobuf import _fields
from tarmac.api.openapi import OpenAPI
from tarmac.api.openapi.naming import document_path

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return build_catalog()


@pytest.fixture(scope="module")
def openapi(catalog: Catalog) -> OpenAPI:
    return OpenAPI(catalog)


@pytest.fixture(scope="module")
def documents(openapi: OpenAPI) -> dict[str, Any]:
    return {path: _document(openapi, path) for path in _index(openapi)}


@pytest.fixture(scope="module")
def v2(openapi: OpenAPI) -> dict[str, Any]:
    return msgspec.json.decode(openapi.v2().body)


def _index(openapi: OpenAPI) -> dict[str, Any]:
    return msgspec.json.decode(openapi.index().body)["paths"]


def _document(openapi: OpenAPI, path: str) -> Any:
    document = openapi.v3(path)
    assert document is not None
    return msgspec.json.decode(document.body)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method, operation


def test_every_group_has_a_document_at_its_hash(openapi: OpenAPI, catalog: Catalog) -> None:
    index = _index(openapi)
    versions = {document_path(resource.group, resource.version) for resource in catalog}
    groups = {f"apis/{each.group}" for each in catalog if each.native and each.group not in ("", "metrics.k8s.io")}
    beside = {".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"}
    assert index.keys() == versions | groups | beside
    for path, entry in index.items():
        document = openapi.v3(path)
        assert document is not None
        assert hashlib.sha512(document.body).hexdigest().upper() == document.hash
        assert entry == {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.hash}"}


def test_an_unknown_group_has_none(openapi: OpenAPI) -> None:
    assert openapi.v3("apis/internal.apiserver.k8s.io/v1alpha1") is None


def test_every_reference_leads_somewhere(documents: dict[str, Any], v2: dict[str, Any]) -> None:
    for document in documents.values():
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(_references(document)) <= known
    assert set(_references(v2)) <= {f"#/definitions/{name}" for name in v2["definitions"]}


def test_every_served_kind_is_described(documents: dict[str, Any], catalog: Catalog) -> None:
    for resource in catalog:
        schemas = documents[document_path(resource.group, resource.version)]["components"]["schemas"]
        wanted = {"group": resource.group, "kind": resource.kind, "version": resource.version}
        found = [schema for schema in schemas.values() if wanted in schema.get("x-kubernetes-group-version-kind", ())]
        assert len(found) == 1, wanted
        assert found[0]["description"], wanted


def test_writes_offer_dry_runs_and_field_validation(documents: dict[str, Any], catalog: Catalog) -> None:
    wanted = {"post": "fieldValidation", "put": "fieldValidation", "patch": "fieldValidation"}
    for resource in catalog:
        if not resource.stored:
            continue
        document = documents[document_path(resource.group, resource.version)]
        for path, method, operation in _operations(document):
            if path.endswith((f"/{resource.plural}", f"/{resource.plural}/{{name}}")) and method in wanted:
                names = {parameter["name"] for parameter in operation["parameters"]}
                assert {"dryRun", "fieldManager", wanted[method]} <= names, (path, method)
                assert operation["x-kubernetes-action"] == method


def test_operations_are_those_that_are_served(documents: dict[str, Any], catalog: Catalog) -> None:
    methods = {"create": "post", "get": "get", "update": "put", "patch": "patch", "delete": "delete"}
    for resource in catalog:
        paths = documents[document_path(resource.group, resource.version)]["paths"]
        root = f"/{document_path(resource.group, resource.version)}/"
        home = f"{root}namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else root + resource.plural
        if resource.kind in ("LocalSubjectAccessReview", "Binding"):
            continue  # create only, on a path that Kubernetes lists alone
        one = paths.get(f"{home}/{{name}}", {}).keys() - {"parameters"}
        assert one == {methods[verb] for verb in resource.verbs if verb in methods and verb != "create"}, home
        many = paths[home].keys() - {"parameters"}
        assert ("post" in many) == ("create" in resource.verbs)
        assert ("get" in many) == ("list" in resource.verbs)


def test_documents_omit_paths_that_are_not_served(documents: dict[str, Any], v2: dict[str, Any]) -> None:
    for document in (*documents.values(), v2):
        assert not [path for path in document["paths"] if "/watch/" in path or "componentstatuses" in path]
        text = msgspec.json.encode(document)
        assert b"cbor" not in text


def test_our_kinds_carry_documentation_and_list_types(documents: dict[str, Any]) -> None:
    schemas = documents["apis/compute.datumapis.com/v1alpha"]["components"]["schemas"]
    workload = schemas["com.datumapis.compute.v1alpha.Workload"]
    spec = workload["properties"]["spec"]["properties"]
    assert spec["placements"]["x-kubernetes-list-type"] == "map"
    assert spec["placements"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["placements"]["description"]
    assert workload["properties"]["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{_META}ObjectMeta"}]
    listed = schemas["com.datumapis.compute.v1alpha.WorkloadList"]
    assert listed["properties"]["items"]["items"] == {
        "$ref": "#/components/schemas/com.datumapis.compute.v1alpha.Workload"
    }


def test_v2_has_the_same_types_in_both_forms(openapi: OpenAPI, v2: dict[str, Any]) -> None:
    names, paths = set[str](), set[str]()
    for number, value in _fields(openapi.v2_protobuf().body):
        if number == 9:
            names |= {_name(entry) for _, entry in _parts(value)}
        elif number == 8:
            paths |= {_name(entry) for _, entry in _parts(value)}
    assert names == v2["definitions"].keys()
    assert paths == v2["paths"].keys()


def test_v2_protobuf_carries_kinds_as_extensions(openapi: OpenAPI) -> None:
    body = openapi.v2_protobuf().body
    assert b'{"group": "compute.datumapis.com", "kind": "Workload", "version": "v1alpha"}' in body
    assert b'{"group": "", "kind": "Pod", "version": "v1"}' in body


def test_v2_spells_references_the_old_way(v2: dict[str, Any]) -> None:
    pod = v2["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]
    assert pod["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert pod["description"]
    assert v2["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"


def _parts(value: int | bytes) -> list[tuple[int, int | bytes]]:
    assert isinstance(value, bytes)
    return list(_fields(value))


def _name(entry: int | bytes) -> str:
    number, name = _parts(entry)[0]
    assert number == 1
    assert isinstance(name, bytes)
    return name.decode()


def test_a_name_may_stand_for_an_object_in_what_kubectl_checks_by_itself(
    documents: dict[str, Any], v2: dict[str, Any]
) -> None:
    def network(schemas: dict[str, Any]) -> dict[str, Any]:
        node = schemas["com.datumapis.compute.v1alpha.Workload"]
        for name in ("spec", "template", "spec", "networkInterfaces"):
            node = node["properties"][name]
        return node["items"]["properties"]["network"]

    assert "type" not in network(v2["definitions"])
    described = network(documents["apis/compute.datumapis.com/v1alpha"]["components"]["schemas"])
    assert described["x-tarmac-or-name"] is True
    assert set(described["properties"]) == {"name", "namespace"}
