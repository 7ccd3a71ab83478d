"""Writes the kinds that the dashboard reads as TypeScript, from the OpenAPI documents of the server.

`dashboard/src/api/served.ts` compares them with the page's own types: a field that is renamed on the server fails `make
check`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tarmac.api.catalog import build_catalog
from tarmac.api.openapi.documents import OpenAPI

Schema = Mapping[str, Any]
COMPUTE, NETWORKING = "apis/compute.datumapis.com/v1alpha", "apis/networking.datumapis.com/v1alpha"
KINDS: Final = {
    COMPUTE: ("Workload", "WorkloadHistory", "WorkloadDeployment", "Instance"),
    NETWORKING: ("Location", "Network", "NetworkContext", "NetworkPolicy", "Subnet"),
    "apis/submariner.io/v1alpha1": ("ExternalService", "SourceIP"),
    "apis/apps/v1": ("ControllerRevision",),
    "api/v1": ("Event", "Node", "Pod"),
}
_REF: Final = "#/components/schemas/"
_SIMPLE: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
_BY_NAME: Final = {"Quantity": "string", "Time": "string", "MicroTime": "string", "IntOrString": "string | number"}


def typescript() -> str:
    """Return an interface for each kind, and for each schema that it refers to."""
    documents = OpenAPI(build_catalog())
    written: dict[str, str] = {}
    for path, kinds in KINDS.items():
        document = documents.v3(path)
        assert document is not None, path
        schemas = msgspec.json.decode(document.body)["components"]["schemas"]
        for kind in kinds:
            name = next(each for each in schemas if each.endswith(f".{kind}"))
            _Writer(schemas, written).named(name, kind)
    return "// Generated from the OpenAPI documents of the server.\n\n" + "\n".join(written.values())


class _Writer:
    """Writes schemas of one document; `written` is shared by all documents."""

    def __init__(self, schemas: Mapping[str, Schema], written: dict[str, str]) -> None:
        self._schemas = schemas
        self._written = written

    def named(self, name: str, own: str = "") -> str:
        """Return the name of the type of a schema of the document, which is written on first use."""
        short = name.rpartition(".")[2]
        if short in _BY_NAME:
            return _BY_NAME[short]
        title = own or "".join(part.capitalize() for part in name.replace("-", ".").split(".")[-3:-1]) + short
        if title not in self._written:
            self._written[title] = ""  # a schema may refer to itself
            self._written[title] = f"export type {title} = {self._type(self._schemas[name])};\n"
        return title

    def _type(self, schema: Schema) -> str:
        if ref := schema.get("$ref"):
            return self.named(ref.removeprefix(_REF))
        for several in ("allOf", "oneOf", "anyOf"):
            if several in schema:
                return " | ".join(dict.fromkeys(self._type(each) for each in schema[several]))
        kind = schema.get("type")
        if kind == "array":
            return f"({self._type(schema.get('items', {}))})[]"
        if kind == "object" or "properties" in schema:
            return self._object(schema)
        return _SIMPLE.get(kind or "", "unknown")

    def _object(self, schema: Schema) -> str:
        if properties := schema.get("properties"):
            fields = (f"{json.dumps(name)}?: {self._type(each)};" for name, each in properties.items())
            return f"{{ {' '.join(fields)} }}"
        values = schema.get("additionalProperties")
        return f"Record<string, {self._type(values) if isinstance(values, Mapping) else 'unknown'}>"
