"""The documents. Those of Kubernetes' own groups are files made by `make setup`, sent unchanged.

Those of Tarmac's groups are made from the catalogue on first request. Large documents do not stay in memory: files are
read again for each request, which is rare, since clients cache by the hash in the URL.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.openapi import gnostic, swagger
from tarmac.api.openapi.naming import document_path
from tarmac.api.openapi.paths import paths_of
from tarmac.api.openapi.schemas import components_of
from tarmac.api.resource import Resource
from tarmac.api.tables import read_generated

_encode = msgspec.json.Encoder().encode
_SECURITY = {
    "BearerToken": {
        "description": "Bearer Token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }
}

# the type that clients request, and Kubernetes' Content-Type of the response (an `@` would be malformed there)
PROTOBUF_V2_ACCEPT = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF_V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class OpenApiDocument(NamedTuple):
    """Bytes to send and their hash, which is also the entity tag."""

    body: bytes
    hash: str


class _V2(msgspec.Struct):
    swagger: msgspec.Raw
    info: msgspec.Raw
    paths: msgspec.Raw
    definitions: msgspec.Raw
    security: msgspec.Raw
    security_definitions: msgspec.Raw = msgspec.field(name="securityDefinitions")


def digest(body: bytes) -> str:
    """Return the hash by which clients identify a document."""
    return hashlib.sha512(body).hexdigest().upper()


class OpenAPI:
    """Documents of one catalogue."""

    def __init__(self, catalog: Catalog) -> None:
        self._own: dict[str, list[Resource]] = {}
        for resource in catalog:
            if not resource.native:
                path = document_path(resource.group, resource.version)
                self._own.setdefault(path, []).append(resource)
        self._made: dict[str, OpenApiDocument] = {}

    @cached_property
    def _generated(self) -> dict[str, str]:
        """Hash of each document that is a file, by path."""
        return msgspec.json.decode(read_generated("openapi/index.json"), type=dict[str, str])

    def index(self) -> OpenApiDocument:
        """Return `/openapi/v3`: the URL of each group's document."""
        hashes = {**self._generated, **{path: self._own_document(path).hash for path in self._own}}
        entries = {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={known}"} for path, known in hashes.items()}
        body = _encode({"paths": entries})
        return OpenApiDocument(body, digest(body))

    def v3(self, path: str) -> OpenApiDocument | None:
        """Return `/openapi/v3/<path>`, such as `apis/policy/v1`, or None if there is no such group."""
        if path in self._own:
            return self._own_document(path)
        known = self._generated.get(path)
        return OpenApiDocument(read_generated(f"openapi/{file_name(path)}"), known) if known else None

    def v2(self) -> OpenApiDocument:
        """Return `/openapi/v2` as JSON."""
        document = msgspec.json.decode(read_generated("openapi/v2.json"), type=_V2)
        paths, schemas = self._own_v2()
        document.paths = _joined(document.paths, paths)
        document.definitions = _joined(document.definitions, schemas)
        body = _encode(document)
        return OpenApiDocument(body, digest(body))

    def v2_protobuf(self) -> OpenApiDocument:
        """Return `/openapi/v2` as gnostic's protobuf."""
        body = read_generated("openapi/v2.pb") + self._own_protobuf
        return OpenApiDocument(body, digest(body))

    @cached_property
    def _own_protobuf(self) -> bytes:
        paths, schemas = self._own_v2()
        return gnostic.paths(paths) + gnostic.definitions(schemas)

    def _own_document(self, path: str) -> OpenApiDocument:
        if path not in self._made:
            shared = msgspec.json.decode(read_generated("openapi/shared.json"), type=dict[str, msgspec.Raw])
            body = _encode(document(*_parts(self._own[path]), shared))
            self._made[path] = OpenApiDocument(body, digest(body))
        return self._made[path]

    def _own_v2(self) -> tuple[dict[str, Any], dict[str, Any]]:
        paths, schemas = _parts([resource for resources in self._own.values() for resource in resources])
        return swagger.paths_v2(paths), swagger.definitions(schemas)


def document(paths: dict[str, Any], schemas: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Return a v3 document."""
    return {
        "openapi": "3.0.0",
        "info": {"title": "Tarmac", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": {**schemas, **shared}, "securitySchemes": _SECURITY},
    }


def document_v2(paths: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a v2 document."""
    return {
        "swagger": "2.0",
        "info": {"title": "Tarmac", "version": "unversioned"},
        "paths": paths,
        "definitions": schemas,
        "security": [{name: [] for name in _SECURITY}],
        "securityDefinitions": _SECURITY,
    }


def file_name(path: str) -> str:
    """Return the name of a document's generated file."""
    return f"{path.replace('/', '__')}.json"


def _parts(resources: list[Resource]) -> tuple[dict[str, Any], dict[str, Any]]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for resource in resources:
        name = resource.schema.name or resource.kind
        paths |= paths_of(resource, name)
        schemas |= components_of(resource, name)
    return paths, schemas


def _joined(members: msgspec.Raw, more: dict[str, Any]) -> msgspec.Raw:
    """Return a JSON object with members added, without parsing the existing ones."""
    return msgspec.Raw(bytes(members)[:-1] + b"," + _encode(more)[1:]) if more else members
