"""The catalogue of all served resources, indexed by URL and by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tarmac.api.compute import resources as compute
from tarmac.api.compute.explanations import LEDGER, WHY
from tarmac.api.compute.lookup import Lookup
from tarmac.api.egress import resources as submariner
from tarmac.api.ingress import resources as ingress
from tarmac.api.ingress.plans import PLAN
from tarmac.api.kubernetes import resources as kubernetes
from tarmac.api.networking import resources as networking
from tarmac.api.resource import Resource

_EXPLAINED = frozenset({
    "core/nodes", "core/pods", "core/replicationcontrollers", "core/services", "apps/daemonsets", "apps/deployments",
    "apps/replicasets", "apps/statefulsets", "batch/cronjobs", "batch/jobs",
})  # fmt: skip
_MORE = {"core/nodes": (LEDGER,), "core/services": (PLAN,)}


class Catalog:
    """All resources, indexed for lookups by the server."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._all = tuple(resources)
        self._by_path = {(r.group, r.version, r.plural): r for r in self._all}
        self._by_kind = {(r.group, r.version, r.kind): r for r in self._all}

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._all)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource of a URL, or None."""
        return self._by_path.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of an apiVersion and kind, or None."""
        return self._by_kind.get((group, version, kind))


def build_catalog(lookup: Lookup | None = None) -> Catalog:
    """Return the catalogue of all served resources: Kubernetes' own and Tarmac's.

    `lookup` gives validation access to the live system (cities, Locations, instance types).
    """
    own = (*compute.resources(lookup), *networking.resources(), *ingress.resources(), *submariner.resources())
    return Catalog([*map(_explained, kubernetes.resources()), *own])


def _explained(resource: Resource) -> Resource:
    """Add `why` to pods, the kinds that create them, Services and nodes; the ledger to nodes, `plan` to Services."""
    if resource.bucket not in _EXPLAINED:
        return resource
    more = _MORE.get(resource.bucket, ())
    return replace(resource, subresources=(*resource.subresources, *more, WHY))
