"""The client for programs of users: `async with UserCluster.connect() as cluster`.

Public, and kept stable between minor versions as the kinds are: this module, the targets in `client.targets.typed`, the
kinds that they name, and the errors in `client.errors` and `api.status`. Everything else may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import msgspec

from tarmac.api.compute.explanations import Explanation
from tarmac.api.status import ApiError, Gone
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.envelope import EnvelopeMetadata, metadata_of
from tarmac.client.errors import ClientError, TransportError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import ServerContext, load
from tarmac.client.requests import JSON_ONLY
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import Target
from tarmac.client.watch import EventType

T = TypeVar("T")

_MAX_WAITING: Final = 1000  # changes that the caller has not read yet; more wait at the server
_RETRY: Final = 1.0
_explained = msgspec.json.Decoder(Explanation).decode


class TypedChange(NamedTuple, Generic[T]):
    """A change of one object. `type` is ADDED, MODIFIED or DELETED; a deleted object is its last version."""

    type: EventType
    object: T


class UserCluster(Client):
    """Access to one cluster with the identity of a kubeconfig. `namespace` is that of its context."""

    def __init__(self, context: ServerContext) -> None:
        super().__init__(HttpTransport(context.http))
        self.namespace = context.namespace

    @classmethod
    def connect(cls, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Choose the server as kubectl does: KUBECONFIG, `~/.kube/config`, or the account of a pod.

        Nothing is sent yet. Raises BadKubeconfig.
        """
        return cls(load(kubeconfig, context))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def why(self, target: Target[Any], name: str, namespace: str = "") -> Explanation:
        """Explain the state of an object, as `tarmac why` does. Raises NotFound."""
        path = target.path(namespace or self.namespace, name, "why")
        return _explained((await self.call("GET", path, headers=JSON_ONLY)).body)

    @asynccontextmanager
    async def changes(
        self, target: Target[T], namespace: str = "", *, labels: str = ""
    ) -> AsyncGenerator[AsyncIterator[TypedChange[T]]]:
        """Follow the objects of a namespace, or of all: first each as it is, then every change, without an end.

        It survives lost connections and restarted servers: every object's newest state comes, and its deletion, though
        not every version in between. The iteration raises ApiError when the server refuses, such as Forbidden.
        """
        waiting: asyncio.Queue[TypedChange[T] | Exception] = asyncio.Queue(_MAX_WAITING)
        following = _Following(self.resource(target), namespace, labels, waiting)
        async with background(following.run(), f"changes of {target.plural}"):
            yield _until_failure(waiting)


class _Following(Generic[T]):
    """Lists and watches one resource. Its task is its own: a watch's timeout must not cancel a slow reader."""

    def __init__(
        self,
        resource: ResourceClient[T],
        namespace: str,
        labels: str,
        waiting: asyncio.Queue[TypedChange[T] | Exception],
    ) -> None:
        self._resource, self._namespace, self._labels = resource, namespace, labels
        self._waiting = waiting
        self._known: dict[tuple[str, str], tuple[str, T]] = {}  # namespace and name -> version and object
        self._version = ""  # of the newest change that was told; empty before a list

    async def run(self) -> None:
        """Follow until cancelled, or until the server refuses."""
        while True:
            try:
                if not self._version:
                    self._version = await self._list()
                await self._watch()
            except Gone:
                self._version = ""  # the history does not reach back: list again
            except TransportError:
                await self._resource.client.clock.sleep(_RETRY)
            except (ApiError, ClientError) as error:
                await self._waiting.put(error)
                return

    async def _list(self) -> str:
        """Tell the differences between the listed state and the known one; return its version."""
        page = await self._resource.list_raw(self._namespace, {"labelSelector": self._labels})
        found = {(meta.namespace, meta.name): (meta, raw) for meta, raw in _with_metadata(page.items)}
        for key in self._known.keys() - found.keys():
            await self._waiting.put(TypedChange("DELETED", self._known.pop(key)[1]))
        for key, (meta, raw) in found.items():
            known = self._known.get(key)
            if known is None or known[0] != meta.resource_version:
                await self._notify("ADDED" if known is None else "MODIFIED", meta, bytes(raw))
        return page.resource_version

    async def _watch(self) -> None:
        """Tell the changes since the known version until the server ends the watch."""
        watching = self._resource.watch(self._namespace, resource_version=self._version, labels=self._labels)
        async with watching as watch:
            async for change in watch:
                if change.type != "BOOKMARK":
                    await self._notify(change.type, change.metadata, change.raw)
                self._version = change.metadata.resource_version

    async def _notify(self, type: EventType, meta: EnvelopeMetadata, raw: bytes) -> None:
        obj, key = self._resource.target.decode(raw), (meta.namespace, meta.name)
        if type == "DELETED":
            self._known.pop(key, None)
        else:
            self._known[key] = meta.resource_version, obj
        await self._waiting.put(TypedChange(type, obj))


def _with_metadata(items: Iterable[msgspec.Raw]) -> Iterator[tuple[EnvelopeMetadata, msgspec.Raw]]:
    return ((metadata_of(raw), raw) for raw in items)


async def _until_failure(waiting: asyncio.Queue[TypedChange[T] | Exception]) -> AsyncIterator[TypedChange[T]]:
    while True:
        found = await waiting.get()
        if isinstance(found, Exception):
            raise found
        yield found
