"""Typed access to one resource: the verbs of the Kubernetes API, nothing else.

Objects are passed and returned as the target's type. Where an object is given, name and namespace come from its
metadata. A list is one page; `pages` walks all of them over one consistent snapshot.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from tarmac.api.schema import Json, JsonObject
from tarmac.api.status import Conflict, Invalid
from tarmac.client.envelope import EnvelopeMetadata, decode_list, metadata_of
from tarmac.client.errors import GarbledReply
from tarmac.client.requests import JSON_BODY, JSON_ONLY, Query, RequestClient
from tarmac.client.targets.target import Target, encode
from tarmac.client.watch import Watch, watch

T = TypeVar("T")

PatchType = Literal["json", "merge", "strategic", "apply"]
Propagation = Literal["Foreground", "Background", "Orphan"]

PATCH_TYPES: Mapping[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
PAGE = 500
_METADATA = b'"metadata":{'
_UNTRACKED = b'"metadata":{"managedFields":[{}],'


class ObjectList(NamedTuple, Generic[T]):
    """One page. `continues` is empty on the last one."""

    items: list[T]
    resource_version: str
    continues: str


class ResourceClient(Generic[T]):
    """The verbs of one resource.

    Every method raises ApiError for refusals and TransportError when the response is lost.
    """

    def __init__(self, client: RequestClient, target: Target[T]) -> None:
        self.client = client
        self.target = target

    async def get(self, name: str, namespace: str = "", *, subresource: str = "") -> T:
        """Return one object, current as of the response. Raises NotFound."""
        reply = await self.client.call("GET", self.target.path(namespace, name, subresource), headers=JSON_ONLY)
        return self._decode(reply.body)

    async def list(
        self,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continues: str = "",
        resource_version: str = "",
        match: str = "",
    ) -> ObjectList[T]:
        """Return one page of a namespace, or of all namespaces."""
        query: Query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": limit or None,
            "continue": continues,
            "resourceVersion": resource_version,
            "resourceVersionMatch": match,
        }
        page = await self.list_raw(namespace, query)
        return ObjectList([self._decode(item) for item in page.items], page.resource_version, page.continues)

    async def list_raw(
        self, namespace: str = "", query: Query | None = None, headers: Mapping[str, str] = JSON_ONLY
    ) -> ObjectList[msgspec.Raw]:
        """Return one page with its items undecoded; they are views into the response's buffer."""
        reply = await self.client.call("GET", self.target.path(namespace), query, headers=headers)
        try:
            page = decode_list(reply.body)
        except (UnicodeError, msgspec.MsgspecError) as error:
            raise GarbledReply(f"not a list: {error}") from error
        return ObjectList(page.items or [], page.metadata.resource_version, page.metadata.continue_)

    async def pages(
        self, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = PAGE
    ) -> AsyncIterator[ObjectList[T]]:
        """Yield every page of one snapshot. Raises Gone when the snapshot expires on the way."""
        continues = ""
        while True:
            page = await self.list(namespace, labels=labels, fields=fields, limit=limit, continues=continues)
            yield page
            continues = page.continues
            if not continues:
                return

    async def create(
        self,
        obj: T | JsonObject | msgspec.Struct,
        *,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        manager: str = "",
        dry_run: bool = False,
        tracked: bool = True,
    ) -> T:
        """Create an object, or a subresource of the one called `name` (eviction, binding, token).

        The field managers of an object that is not `tracked` are not recorded until a client applies to it: right for
        objects that one program makes and people read. A Kubernetes API server records them all the same.
        """
        body = self.target.encode(obj)
        if not tracked:
            body = body.replace(_METADATA, _UNTRACKED, 1)
        path = self.target.path(namespace or metadata_of(body).namespace, name, subresource)
        reply = await self.client.call("POST", path, _write(manager, dry_run), body)
        return self._decode(reply.body)

    async def update(self, obj: T, *, subresource: str = "", manager: str = "", dry_run: bool = False) -> T:
        """Replace the version the object carries. Raises Conflict when it is no longer the current one."""
        body = self.target.encode(obj)
        path = self._path_of(metadata_of(body), subresource)
        return self._decode((await self.client.call("PUT", path, _write(manager, dry_run), body)).body)

    async def patch(
        self,
        name: str,
        patch: Json,
        namespace: str = "",
        *,
        type: PatchType = "merge",
        subresource: str = "",
        manager: str = "",
        force: bool | None = None,
        dry_run: bool = False,
        uid: str = "",
    ) -> T:
        """Change an object without reading it first. A merge patch with a resourceVersion is conditional on it.

        With a `uid`, a merge patch applies only to the object with that uid; a different object of that name is a
        Conflict.
        """
        query: Query = {**_write(manager, dry_run), "force": force}
        headers = {**JSON_BODY, "content-type": PATCH_TYPES[type]}
        path = self.target.path(namespace, name, subresource)
        body = encode(patch if not uid else {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}})
        try:
            return self._decode((await self.client.call("PATCH", path, query, body, headers)).body)
        except Invalid as error:
            if uid and _is_about_uid(error):
                raise Conflict(error.message, details=error.details) from error
            raise

    async def apply(
        self, obj: T | JsonObject, *, manager: str, force: bool = True, subresource: str = "", dry_run: bool = False
    ) -> T:
        """Server-side apply: `manager` owns exactly the fields set here. Controllers force, people should not."""
        body = self.target.encode(obj)
        metadata = metadata_of(body)
        query: Query = {**_write(manager, dry_run), "force": force}
        headers = {**JSON_BODY, "content-type": PATCH_TYPES["apply"]}
        path = self._path_of(metadata, subresource)
        return self._decode((await self.client.call("PATCH", path, query, body, headers)).body)

    async def delete(
        self,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        grace: int | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> None:
        """Delete, optionally only the object with this uid and version. Raises NotFound, Conflict."""
        options = delete_options(propagation, grace, uid, resource_version)
        await self.client.call("DELETE", self.target.path(namespace, name), body=encode(options))

    async def delete_collection(
        self,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
    ) -> None:
        """Delete all objects that the selectors match."""
        query: Query = {"labelSelector": labels, "fieldSelector": fields}
        body = encode(delete_options(propagation, grace))
        await self.client.call("DELETE", self.target.path(namespace), query, body)

    def watch(
        self, namespace: str = "", *, resource_version: str = "", labels: str = "", fields: str = "", timeout: int = 300
    ) -> AbstractAsyncContextManager[Watch]:
        """Watch changes after `resource_version`, undecoded.

        Raises Gone (on entry or later) when history does not reach back.
        """
        query: Query = {
            "resourceVersion": resource_version,
            "labelSelector": labels,
            "fieldSelector": fields,
            "timeoutSeconds": timeout,
            "allowWatchBookmarks": True,
        }
        return watch(self.client, self.target.path(namespace), query)

    def _path_of(self, metadata: EnvelopeMetadata, subresource: str) -> str:
        return self.target.path(metadata.namespace, metadata.name, subresource)

    def _decode(self, raw: bytes | msgspec.Raw) -> T:
        try:
            return self.target.decode(raw)
        except (UnicodeError, msgspec.MsgspecError) as error:
            raise GarbledReply(f"not a {self.target.kind}: {error}") from error


def delete_options(
    propagation: Propagation | None = None, grace: int | None = None, uid: str = "", resource_version: str = ""
) -> JsonObject:
    """Return a DeleteOptions with the fields that are set."""
    options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    preconditions: dict[str, Any] = {"uid": uid, "resourceVersion": resource_version}
    if preconditions := {name: value for name, value in preconditions.items() if value}:
        options["preconditions"] = preconditions
    return options


def _is_about_uid(error: Invalid) -> bool:
    """True if the error is about the uid: Kubernetes refuses to change it like any immutable field."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _write(manager: str, dry_run: bool) -> dict[str, str | int | bool | None]:
    return {"fieldManager": manager, "dryRun": "All" if dry_run else None}
