"""`tarmac crds --remove`: deletes Tarmac's kinds from a Kubernetes cluster, and every object of them.

The controllers run meanwhile: they release what an object uses, and then its finalizers. Objects of a deleted source
may appear once more, so a round deletes whatever it finds, until nothing is left. The catalogues come last and with
their definitions, since the controllers create missing entries as long as the definition exists.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents
from tarmac.api.schema import JsonObject
from tarmac.api.status import (
    ApiError,
    Conflict,
    InternalError,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
)
from tarmac.base.log import configure
from tarmac.base.stderr import print_error
from tarmac.client.client import Client
from tarmac.client.discovery import serves
from tarmac.client.errors import ClientError, TransportError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import Target, dynamic
from tarmac.server.security.authorization.policy import Rule, rule

CRDS = dynamic("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
_CATALOGUES = ("instancetypes", "machineimages")
_INTERVAL = 0.5
_MAX_NAMED = 20
_TRANSIENT = (TransportError, TooManyRequests, InternalError, ServiceUnavailable, Timeout)
T = TypeVar("T")

Remaining = dict[str, list[str]]
"""The objects that are left, by kind and name, with their finalizers."""


class NotRemoved(Exception):
    """Objects are left after the timeout."""


def remove(options: argparse.Namespace) -> int:
    """Remove; return 1 if something is left or the server refuses."""
    configure(level="warning")
    try:
        asyncio.run(_run(options))
    except (OSError, ValueError, ClientError, ApiError, NotRemoved) as error:
        print_error(error)
        return 1
    return 0


async def _run(options: argparse.Namespace) -> None:
    client = Client(HttpTransport(load(options.kubeconfig, options.context).http))
    try:
        await KindRemoval(client, crd_documents(build_catalog()), options.timeout).run()
    finally:
        await client.close()


class KindRemoval:
    """One removal, with a timeout for the whole."""

    def __init__(self, client: Client, documents: Sequence[JsonObject], timeout: float) -> None:
        self._client = client
        self._crds = client.resource(CRDS)
        self._targets = {each["metadata"]["name"]: _target(each["spec"]) for each in documents}
        self._timeout = timeout
        self._deadline = client.clock.monotonic() + timeout

    async def run(self) -> None:
        """Delete objects, then catalogues, then definitions. Raises NotRemoved, and ValueError on Tarmac's server."""
        if not await self._retried(lambda: serves(self._client, CRDS)):
            raise ValueError(
                "crds --remove: the server has no CustomResourceDefinitions; Tarmac's own serves its kinds"
            )
        catalogues = {name: each for name, each in self._targets.items() if each.plural in _CATALOGUES}
        others = {name: each for name, each in self._targets.items() if name not in catalogues}
        await self._until_gone("objects", lambda: self._delete_objects(others))
        # Before the other definitions: an entry is released once no Workload uses it, which its watch has to show.
        await self._until_gone("catalogues", lambda: self._delete_definitions(catalogues))
        await self._until_gone("definitions", lambda: self._delete_definitions(others))
        print("removed: no object and no definition of Tarmac's kinds is left", flush=True)

    async def _until_gone(self, subject: str, delete: Callable[[], Awaitable[Remaining]]) -> None:
        shown = ""
        while remaining := await self._retried(delete):
            counts = Counter(each.split(" ")[0] for each in remaining)
            text = f"deleting {subject}: " + ", ".join(f"{number} {kind}" for kind, number in counts.items())
            if text != shown:
                print(text, flush=True)
            shown = text
            if self._client.clock.monotonic() > self._deadline:
                raise NotRemoved(_left(remaining, self._timeout))
            await self._client.clock.sleep(_INTERVAL)

    async def _retried(self, act: Callable[[], Awaitable[T]]) -> T:
        """Repeat while the server does not respond or is overloaded, until the timeout."""
        while True:
            try:
                return await act()
            except _TRANSIENT as error:
                if self._client.clock.monotonic() > self._deadline:
                    raise
                print(f"retrying: {error}", flush=True)
            await self._client.clock.sleep(_INTERVAL)

    async def _delete_objects(self, targets: Mapping[str, Target[JsonObject]]) -> Remaining:
        found: Remaining = {}
        for target in targets.values():
            found |= await self._delete_all(self._client.resource(target))
        return found

    async def _delete_all(self, resource: ResourceClient[JsonObject]) -> Remaining:
        found: Remaining = {}
        with suppress(NotFound):  # the kind is not installed
            for each in (await resource.list()).items:
                found[_name(resource.target, each)] = each["metadata"].get("finalizers") or []
                await _delete(resource, each)
        return found

    async def _delete_definitions(self, targets: Mapping[str, Target[JsonObject]]) -> Remaining:
        found: Remaining = {}
        for name, target in targets.items():
            with suppress(NotFound):
                definition = await self._crds.get(name)
                found[f"CustomResourceDefinition {name}"] = definition["metadata"].get("finalizers") or []
                await _delete(self._crds, definition)
                for each in (await self._client.resource(target).list()).items:
                    found[_name(target, each)] = each["metadata"].get("finalizers") or []
        return found


async def _delete(resource: ResourceClient[JsonObject], obj: JsonObject) -> None:
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp") is None:
        with suppress(NotFound, Conflict):
            await resource.delete(metadata["name"], metadata.get("namespace", ""), uid=metadata["uid"])


def removal_rules() -> list[Rule]:
    """Return the rights that a removal needs."""
    documents = crd_documents(build_catalog())
    groups: dict[str, list[str]] = {}
    for each in documents:
        groups.setdefault(each["spec"]["group"], []).append(each["spec"]["names"]["plural"])
    names = " ".join(each["metadata"]["name"] for each in documents)
    return [
        rule("delete get", CRDS.group, CRDS.plural, names),
        *(rule("delete list", group, " ".join(plurals)) for group, plurals in groups.items()),
    ]


def _target(spec: JsonObject) -> Target[JsonObject]:
    [version] = [each["name"] for each in spec["versions"]]
    names, namespaced = spec["names"], spec["scope"] == "Namespaced"
    return dynamic(f"{spec['group']}/{version}", names["plural"], names["kind"], namespaced=namespaced)


def _name(target: Target[JsonObject], obj: JsonObject) -> str:
    namespace = obj["metadata"].get("namespace")
    return f"{target.kind} {f'{namespace}/' if namespace else ''}{obj['metadata']['name']}"


def _left(remaining: Remaining, timeout: float) -> str:
    return (
        f"crds --remove: {len(remaining)} objects are left after {timeout:g} s: {'; '.join(_named(remaining))}; "
        "check that the controllers run, which release finalizers, then repeat"
    )


def _named(remaining: Remaining) -> Iterator[str]:
    for name, finalizers in [*remaining.items()][:_MAX_NAMED]:
        yield f"{name} (finalizers: {', '.join(finalizers) or 'none'})"
