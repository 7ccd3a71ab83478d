"""A store with objects in it, and the default plugins over it: the inputs of admission, without HTTP."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from tarmac.api.catalog import build_catalog
from tarmac.api.kubernetes.runtimeclasses import HOST_CLASS, NVIDIA_HANDLER, SANDBOX_CLASS
from tarmac.api.resource import Resource
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.server.admission.chain import AdmissionChain, AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.default import default_plugins
from tarmac.server.encoding import encode_object
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.users import User
from tarmac.store.memory import MemoryStore

Object = dict[str, Any]

ADMIN = User("admin", groups=("system:masters",))
CATALOG = build_catalog()


class World:
    """One memory store and one chain. Use with `async with`."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.reader = Reader(self.store)
        self.clock = ManualClock()
        self._plugins: list[AdmissionPlugin] = []

    async def __aenter__(self) -> World:
        await self.store.start()
        authorizer = Authorizer(self.store)
        authorizer.start()
        self._plugins = default_plugins(self.reader, CATALOG, self.clock, Randomness(7), authorizer, way_in=True)
        await self.put("namespaces", {"metadata": {"name": "default"}})
        await self.put("serviceaccounts", {"metadata": {"name": "default", "namespace": "default"}})
        for name in (SANDBOX_CLASS, HOST_CLASS, NVIDIA_HANDLER):
            await self.put("runtimeclasses", {"metadata": {"name": name}, "handler": name})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()

    def resource(self, plural: str) -> Resource:
        """The newest served resource of that name."""
        return next(one for one in CATALOG if one.plural == plural)

    async def put(self, plural: str, obj: Object) -> Object:
        """Store an object without validation, with its defaults."""
        resource, obj = self.resource(plural), copy.deepcopy(obj)
        resource.strategy.default(obj)
        obj["metadata"].setdefault("uid", f"uid-{obj['metadata']['name']}")
        obj["metadata"].setdefault("creationTimestamp", "2026-11-15T12:00:00Z")
        await self.store.create(resource.bucket, _key(obj), encode_object(copy.deepcopy(obj), resource))
        return obj

    async def remove(self, plural: str, key: str) -> None:
        """Delete an object for good."""
        bucket = self.resource(plural).bucket
        entry = self.store.head(bucket, key)
        assert entry is not None
        await self.store.delete(bucket, key, entry.revision)

    async def settle(self) -> None:
        """Wait until all effects of the events have happened."""
        for _ in range(10):
            await asyncio.sleep(0)

    def chain(self, *names: str) -> AdmissionChain:
        """The default chain, or some of its plugins."""
        return AdmissionChain([plugin for plugin in self._plugins if not names or plugin.name in names])

    def admit(
        self,
        plural: str,
        obj: Object | None,
        *plugins: str,
        old: Object | None = None,
        operation: Operation | None = None,
        subresource: str = "",
        user: User = ADMIN,
        dry_run: bool = False,
    ) -> Attributes:
        """Run both halves of the chain over one write; the object is changed in place and part of the answer."""
        resource = self.resource(plural)
        metadata = (obj or old or {})["metadata"]
        if obj is not None:
            resource.strategy.default(obj)
        operation = operation or ("CREATE" if old is None else "UPDATE")
        place = (metadata.get("namespace", ""), metadata.get("name", ""))
        attributes = Attributes(operation, resource, subresource, *place, obj, old, user, dry_run)
        chain = self.chain(*plugins)
        chain.admit(attributes)
        if obj is not None and operation == "CREATE" and not subresource:
            resource.strategy.prepare_for_create(obj)
        chain.validate(attributes)
        return attributes


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]


def pod(name: str = "p", **spec: Any) -> Object:
    """A Pod in `default`."""
    containers = [{"name": "c", "image": "nginx"}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": containers, **spec}}


def asking(**resources: dict[str, str]) -> list[Object]:
    """A container with requests."""
    return [{"name": "c", "image": "nginx", "resources": resources}]
