"""Discovery documents: the served resources, in the older form with one document per group and in the aggregated form.

All documents are functions of the catalogue, which does not change while the server runs; callers cache the bytes.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.resource import Resource, Subresource
from tarmac.api.schema import JsonObject

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
AGGREGATED_VERSIONS = ("v2", "v2beta1")

_encode = msgspec.json.Encoder().encode


class ServedDiscovery(NamedTuple):
    """Bytes to send and their entity tag, without quotes."""

    body: bytes
    etag: str


class Discovery:
    """All documents of one catalogue. Each is made on first request."""

    def __init__(self, catalog: Catalog) -> None:
        self._groups: dict[str, dict[str, list[Resource]]] = {}
        for resource in catalog:
            self._groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        self._made: dict[str, ServedDiscovery] = {}

    def core_versions(self, address: str) -> bytes:
        """Return `/api`. `address` is the host and port under which clients reach the server."""
        cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return _encode({"kind": "APIVersions", "versions": list(self._groups[""]), "serverAddressByClientCIDRs": cidrs})

    def groups(self) -> bytes:
        """Return `/apis`."""
        return self._document("groups", self._group_list).body

    def group(self, group: str) -> bytes | None:
        """Return `/apis/<group>`, or None."""
        if not group or group not in self._groups:
            return None
        return _encode({"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})

    def resources(self, group: str, version: str) -> bytes | None:
        """Return `/api/v1` or `/apis/<group>/<version>`, or None."""
        resources = self._groups.get(group, {}).get(version)
        if resources is None:
            return None
        listed = [row for resource in resources for row in _rows(resource)]
        head: JsonObject = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
        return _encode({**head, "groupVersion": resources[0].api_version, "resources": listed})

    def aggregated(self, core: bool, version: str) -> ServedDiscovery:
        """Return `/api` (core) or `/apis` with every resource in one document, in one of AGGREGATED_VERSIONS."""

        def make() -> JsonObject:
            names = [group for group in self._groups if (group == "") is core]
            items = [_aggregated_group(group, self._groups[group]) for group in names]
            head = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}"}
            return {**head, "metadata": {}, "items": items}

        return self._document(f"aggregated {core} {version}", make)

    def _document(self, name: str, make: Callable[[], JsonObject]) -> ServedDiscovery:
        if name not in self._made:
            body = _encode(make())
            self._made[name] = ServedDiscovery(body, hashlib.sha512(body).hexdigest().upper())
        return self._made[name]

    def _group_list(self) -> JsonObject:
        groups = [self._group(group) for group in self._groups if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> JsonObject:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self._groups[group]]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _rows(resource: Resource) -> Iterable[JsonObject]:
    row: JsonObject = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
        "shortNames": resource.short_names,
        "categories": resource.categories,
    }
    if resource.stored:
        row["storageVersionHash"] = _storage_hash(resource)
    yield _without_empty(row)
    for subresource in resource.subresources:
        yield {
            "name": f"{resource.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **_foreign(subresource),
            "kind": subresource.kind,
            "verbs": subresource.verbs,
        }


def _storage_hash(resource: Resource) -> str:
    """Return the hash of the storage format. A view has the hash of the resource that stores its objects."""
    group = resource.group if resource.storage is None else ""
    digest = hashlib.sha256(f"{group}/{resource.version}/{resource.kind}".encode()).digest()
    return b64encode(digest[:8]).decode()


def _foreign(subresource: Subresource) -> JsonObject:
    return {"group": subresource.group, "version": subresource.version} if subresource.group else {}


def _without_empty(row: JsonObject) -> JsonObject:
    return {key: value for key, value in row.items() if value not in ((), [])}


def _aggregated_group(group: str, versions: dict[str, list[Resource]]) -> JsonObject:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {"version": version, "resources": [_aggregated(item) for item in resources], "freshness": "Current"}
            for version, resources in versions.items()
        ],
    }


def _aggregated(resource: Resource) -> JsonObject:
    return _without_empty(
        {
            "resource": resource.plural,
            "responseKind": _response_kind(resource, resource.kind, None),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": resource.verbs,
            "shortNames": resource.short_names,
            "categories": resource.categories,
            "subresources": [
                {
                    "subresource": item.name,
                    "responseKind": _response_kind(resource, item.kind, item),
                    "verbs": item.verbs,
                }
                for item in resource.subresources
            ],
        }
    )


def _response_kind(resource: Resource, kind: str, subresource: Subresource | None) -> JsonObject:
    """Return group, version and kind. As in Kubernetes, group and version of native kinds are left empty."""
    if subresource is not None and subresource.group:
        return {"group": subresource.group, "version": subresource.version, "kind": kind}
    if resource.native:
        return {"group": "", "version": "", "kind": kind}
    return {"group": resource.group, "version": resource.version, "kind": kind}
