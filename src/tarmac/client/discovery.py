"""Discovers the resources that a server serves.

Aggregated discovery takes two requests; a server without it is queried group by group. Of each group the preferred
version counts, and of a resource served in several versions the first. A group with an unavailable backend is reported
as a failure, never silently left out: a caller that deletes "everything" must know that it did not see everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.client.client import Client
from tarmac.client.requests import decode_json
from tarmac.client.targets.target import Target, dynamic

AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


@dataclass(frozen=True, slots=True)
class DiscoveredResource:
    """One resource and its verbs."""

    target: Target[JsonObject]
    verbs: frozenset[str]


@dataclass(slots=True)
class DiscoveredResources:
    """All resources, and the group versions that could not be read."""

    resources: list[DiscoveredResource] = field(default_factory=list[DiscoveredResource])
    failures: dict[str, str] = field(default_factory=dict[str, str])

    def with_verbs(self, *verbs: str) -> list[DiscoveredResource]:
        """Return the resources that have all these verbs."""
        return [each for each in self.resources if each.verbs.issuperset(verbs)]


async def serves(client: Client, target: Target[Any]) -> bool:
    """True if the server has a resource. Raises ApiError or ClientError when it does not respond."""
    try:
        found: JsonObject = await client.get_json(f"/apis/{target.api_version}" if target.group else "/api/v1")
    except NotFound:
        return False
    return any(each.get("name") == target.plural for each in found.get("resources") or ())


async def discover(client: Client) -> DiscoveredResources:
    """Query the server. Raises ApiError or ClientError when it does not respond at all."""
    found = DiscoveredResources()
    for root in ("/api", "/apis"):
        document = decode_json((await client.call("GET", root, headers=AGGREGATED)).body)
        if document.get("kind") == "APIGroupDiscoveryList":
            _take_aggregated(found, document)
        elif root == "/api":
            await _ask(client, found, "v1", "/api/v1")
        else:
            for group in document.get("groups") or []:
                version = group["preferredVersion"]["groupVersion"]
                await _ask(client, found, version, f"/apis/{version}")
    return found


def _take_aggregated(found: DiscoveredResources, document: JsonObject) -> None:
    for group in document.get("items") or []:
        name = group["metadata"].get("name", "")
        seen: set[str] = set()
        for version in group.get("versions") or []:
            api_version = f"{name}/{version['version']}" if name else version["version"]
            if version.get("freshness") == "Stale":
                found.failures[api_version] = "its backend is not answering"
            for resource in version.get("resources") or []:
                if resource["resource"] not in seen:
                    seen.add(resource["resource"])
                    kind = (resource.get("responseKind") or {}).get("kind", "")
                    target = dynamic(api_version, resource["resource"], kind, resource.get("scope") == "Namespaced")
                    found.resources.append(DiscoveredResource(target, frozenset(resource.get("verbs") or ())))


async def _ask(client: Client, found: DiscoveredResources, api_version: str, path: str) -> None:
    try:
        document = await client.get_json(path)
    except ApiError as error:
        found.failures[api_version] = str(error)
        return
    for resource in document.get("resources") or []:
        if "/" not in resource["name"]:
            target = dynamic(api_version, resource["name"], resource["kind"], resource["namespaced"])
            found.resources.append(DiscoveredResource(target, frozenset(resource.get("verbs") or ())))
