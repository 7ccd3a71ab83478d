"""Selects a pod for each source of an ExternalService: one behind its Service that no earlier source selects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from tarmac.api.egress.externalservice import ExternalService, ExternalServiceStatus, Source, SourceStatus
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, NotFound
from tarmac.client.client import Client
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NODES

_SERVICE = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod behind a source, and its node."""

    name: str  # namespace/name
    node: str


@dataclass(slots=True)
class CheckedSource:
    """A source with its status and the pods to test it from, ready ones first."""

    service: str  # namespace/name
    status: SourceStatus
    pods: list[PodOnNode]
    trouble: ApiError | None = None  # the reason why its pods could not be listed

    @property
    def expected(self) -> str:
        """The expected external address."""
        return ",".join(self.status.source_ips)


async def sources_of(client: Client, service: ExternalService) -> list[CheckedSource]:
    """Return every source in order. A pod of several sources counts for the first, whose address it uses."""
    status = service.status or ExternalServiceStatus()
    taken: set[str] = set()
    locations: dict[str, str | None] = {}
    found: list[CheckedSource] = []
    for number, source in enumerate(service.spec.sources):
        namespace = source.service.namespace or service.metadata.namespace
        known = status.sources[number] if number < len(status.sources) else SourceStatus(source.service)
        checked = CheckedSource(f"{namespace}/{source.service.name}", known, [])
        try:
            own = [each async for each in _pods(client, namespace, source, locations)]
        except ApiError as error:
            checked.trouble = error
        else:
            checked.pods = [each for each in own if each.name not in taken]
            taken.update(each.name for each in own)
        found.append(checked)
    return found


async def _pods(
    client: Client, namespace: str, source: Source, locations: dict[str, str | None]
) -> AsyncIterator[PodOnNode]:
    listed = await client.resource(ENDPOINT_SLICES).list(namespace, labels=f"{_SERVICE}={source.service.name}")
    endpoints = [endpoint for each in listed.items for endpoint in each.get("endpoints") or ()]
    seen: set[str] = set()
    for endpoint in sorted(endpoints, key=_first_ready):
        target, node = endpoint.get("targetRef") or {}, endpoint.get("nodeName", "")
        name = f"{namespace}/{target.get('name', '')}"
        if target.get("kind") != "Pod" or name in seen:
            continue
        seen.add(name)
        if not source.location or await _location(client, node, locations) in (None, source.location):
            yield PodOnNode(name, node)


def _first_ready(endpoint: JsonObject) -> tuple[bool, str]:
    conditions = endpoint.get("conditions") or {}
    return conditions.get("ready") is False, (endpoint.get("targetRef") or {}).get("name", "")


async def _location(client: Client, node: str, known: dict[str, str | None]) -> str | None:
    """Return a node's location; None when reading it is forbidden, and the pod has to be tried."""
    if node not in known:
        try:
            found = await client.resource(NODES).get(node)
        except (Forbidden, NotFound):
            known[node] = None
        else:
            known[node] = (found["metadata"].get("labels") or {}).get(LABEL_LOCATION, "")
    return known[node]
