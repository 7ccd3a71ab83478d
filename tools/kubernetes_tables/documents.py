"""OpenAPI v3 documents of the served groups and of what lists them: Kubernetes' own, cut down to what is served here.

Paths of resources that are not served and of the old watch endpoints go, as do media types the server does not speak;
types that nothing refers to any more go with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tarmac.api.kubernetes.servedresources import SERVED
from tarmac.api.openapi import gnostic, swagger
from tarmac.api.openapi.documents import digest, document, document_v2, file_name
from tarmac.api.openapi.naming import document_path
from tarmac.api.openapi.paths import paths_of
from tarmac.api.resource import Resource
from tarmac.api.schema import Schema, Type
from tools.kubernetes_tables.published import METRICS
from tools.kubernetes_tables.resources import METRICS_ROWS

Document = dict[str, Any]

_SPOKEN = ("application/json", "application/yaml", "application/json;stream=watch")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_PREFIX = "#/components/schemas/"
_BESIDE_GROUPS = (".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version")

# what the documents of Tarmac's own groups refer to
SHARED = [
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    *(_META + name for name in ("DeleteOptions", "ListMeta", "MicroTime", "ObjectMeta", "Patch", "Status", "Time")),
]


def write_documents(folder: Path, published: dict[str, Document], components: dict[str, Any]) -> None:
    """Everything below `_generated/openapi`: v3 by group with an index of hashes, v2 in both forms, shared types."""
    folder.mkdir()
    hashes: dict[str, str] = {}
    paths: dict[str, Any] = {}
    shared = closure(set(SHARED), components)
    schemas = swagger.definitions(shared)
    for path, made in _documents(published, components):
        body = msgspec.json.encode(made)
        (folder / file_name(path)).write_bytes(body)
        hashes[path] = digest(body)
        paths |= swagger.paths_v2(made["paths"])
        schemas |= swagger.definitions(made["components"]["schemas"])
    v2 = document_v2(paths, schemas)
    (folder / "index.json").write_bytes(msgspec.json.encode(hashes))
    (folder / "v2.json").write_bytes(msgspec.json.encode(v2))
    (folder / "v2.pb").write_bytes(gnostic.head(v2) + gnostic.paths(paths) + gnostic.definitions(schemas))
    (folder / "shared.json").write_bytes(msgspec.json.encode(shared))


def _documents(published: dict[str, Document], components: dict[str, Any]) -> Iterator[tuple[str, Document]]:
    """Every v3 document that is a file, by path."""
    for path in sorted({*_BESIDE_GROUPS, *(f"apis/{group}" for group, _ in SERVED if f"apis/{group}" in published)}):
        paths = {at: _spoken(item) for at, item in published[path]["paths"].items()}
        yield path, document(paths, closure(_references(paths), components), {})
    for group, version in SERVED:
        path = document_path(group, version)
        if path in published:
            yield path, served_document(published[path], components, group, version)
        else:
            yield path, _metrics_document(components)


def _metrics_document(components: dict[str, Any]) -> Document:
    """metrics.k8s.io is served by an extension of Kubernetes, so its paths are not published; they are plain ones."""
    paths: dict[str, Any] = {}
    for row in METRICS_ROWS.values():
        resource = Resource(
            group="metrics.k8s.io",
            version="v1beta1",
            kind=row["kind"],
            plural=row["plural"],
            singular=row["singular"],
            namespaced=row["namespaced"],
            verbs=tuple(row["verbs"]),
            load_schema=lambda: Schema(Type.OBJECT),
        )
        paths |= paths_of(resource, f"{METRICS}.{row['kind']}")
    return document(paths, closure(_references(paths), components), {})


def served_document(published: Document, components: dict[str, Any], group: str, version: str) -> Document:
    """The document of one group and version."""
    root = f"/{document_path(group, version)}/"
    wanted = SERVED[group, version]
    paths = {
        path: _spoken(item)
        for path, item in published["paths"].items()
        if path.startswith(root) and _is_served(path.removeprefix(root), wanted)
    }
    return document(paths, closure(_references(paths), components), {})


def closure(roots: set[str], components: dict[str, Any]) -> dict[str, Any]:
    """The types named, and all they refer to."""
    found: dict[str, Any] = {}
    waiting = sorted(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = components[name]
            waiting += sorted(_references(components[name]) - found.keys())
    return dict(sorted(found.items()))


def _is_served(rest: str, plurals: tuple[str, ...]) -> bool:
    if rest == "":
        return True
    steps = rest.split("/")
    if steps[0] == "namespaces" and len(steps) > 2 and steps[2] not in ("status", "finalize"):
        steps = steps[2:]
    return steps[0] in plurals


def _spoken(item: dict[str, Any]) -> dict[str, Any]:
    """A path item without media types that are not spoken here."""
    spoken: dict[str, Any] = {}
    for method, operation in item.items():
        if method == "parameters":
            spoken[method] = operation
            continue
        responses = {
            code: {**answer, "content": _known_media(answer["content"])} if "content" in answer else answer
            for code, answer in operation["responses"].items()
        }
        spoken[method] = {**operation, "responses": responses}
        body = operation.get("requestBody")
        if body:
            kept = {media: schema for media, schema in body["content"].items() if not media.endswith("cbor")}
            spoken[method]["requestBody"] = {**body, "content": kept}
    return spoken


def _known_media(content: dict[str, Any]) -> dict[str, Any]:
    return {media: schema for media, schema in content.items() if media in _SPOKEN} or content


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        found = {node["$ref"].removeprefix(_PREFIX)} if isinstance(node.get("$ref"), str) else set[str]()
        return found.union(*(_references(value) for value in node.values()))
    if isinstance(node, list):
        return set[str]().union(*(_references(value) for value in node))
    return set()
