"""Maps request attributes to endpoints.

Routes are built on first use and cached, so a server with many kinds starts at once and a request costs one lookup. A
route is a table of verbs; it contains only the verbs that the resource supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tarmac.api.networking import names as networking
from tarmac.api.networking import podendpoint, tunnelendpoint
from tarmac.api.resource import Resource
from tarmac.api.status import NO_METHOD, MethodNotAllowed, NotFound
from tarmac.server.deprecation import Endpoint, warning_of
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.storage.autoscalerviews import FirstAutoscalerView
from tarmac.server.storage.creating import create
from tarmac.server.storage.deletecollection import delete_collection
from tarmac.server.storage.deleting import delete
from tarmac.server.storage.eventviews import EventView, View
from tarmac.server.storage.getting import get
from tarmac.server.storage.listcache import ListCache
from tarmac.server.storage.listing import list_objects
from tarmac.server.storage.patching import patch
from tarmac.server.storage.projections import Project, Projection
from tarmac.server.storage.resourcestorage import ResourceStorage, StorageServices
from tarmac.server.storage.stalerefusals import retry_stale_refusal
from tarmac.server.storage.updating import rules_of, update
from tarmac.server.storage.watchgroups import Hub
from tarmac.server.storage.watching import watch

Route = Mapping[str, Endpoint]
Answering = Callable[["Routes", ResourceStorage], Route]
"""Builds the route of a subresource, or of a resource that is never stored."""

ANY_SCALE = ("", "", "scale")
NO_RESOURCE = "the server could not find the requested resource"
_ON_ONE = frozenset({"get", "update", "patch", "delete"})
_RETRIED_WHEN_STALE = frozenset({"create", "update", "patch", "delete"})
_WRITE_NOTHING_WHEN_REFUSED = frozenset(
    {"", "approval", "binding", "ephemeralcontainers", "finalize", "resize", "scale", "status", "token"}
)
_VIEWS: dict[tuple[str, str, str], View] = {
    ("events.k8s.io", "v1", "events"): EventView(),
    ("autoscaling", "v1", "horizontalpodautoscalers"): FirstAutoscalerView(),
}
_PROJECTIONS: dict[tuple[str, str], tuple[str, Project]] = {
    (networking.GROUP, "podendpoints"): (podendpoint.PODS, podendpoint.project),
    (networking.GROUP, "tunnelendpoints"): (tunnelendpoint.NODES, tunnelendpoint.project),
}


class Routes:
    """All routes of one server. `special` holds routes other than plain storage, by (group, plural, subresource)."""

    def __init__(
        self, services: StorageServices, hub: Hub, cache: ListCache, special: Mapping[tuple[str, str, str], Answering]
    ) -> None:
        self._services = services
        self._hub = hub
        self._cache = cache
        self._special = special
        self._endpoints: dict[tuple[str, str, str, str, str, bool, bool], Endpoint] = {}
        self._storages: dict[tuple[str, str, str], ResourceStorage] = {}

    def find(self, info: RequestInfo) -> Endpoint | None:
        """Return the endpoint of a request; None when there is no such resource. Raises NotFound, MethodNotAllowed."""
        place = (info.group, info.version, info.resource, info.subresource)
        key = (info.verb, *place, not info.name, not info.namespace)
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            endpoint = self._find(info)
            if endpoint is not None:  # unknown paths are unbounded, so they are not cached
                self._endpoints[key] = endpoint
        return endpoint

    def _find(self, info: RequestInfo) -> Endpoint | None:
        found = self._make(info)
        if found is None:
            return None
        resource, route = found
        if not _is_addressed(resource, info):
            raise NotFound(NO_RESOURCE, details={})
        endpoint = route.get(info.verb)
        if endpoint is None or not _has_form(resource, info):
            raise MethodNotAllowed(NO_METHOD, details={})
        store = self._services.store
        # Never for subresources with effects elsewhere, such as exec or eviction: those may have happened before the
        # rejection.
        again = info.verb in _RETRIED_WHEN_STALE and info.subresource in _WRITE_NOTHING_WHEN_REFUSED
        return partial(retry_stale_refusal, store, endpoint) if store.shared and again else endpoint

    def storage_of(self, resource: Resource) -> ResourceStorage:
        """Return the ResourceStorage of a resource, built on first use."""
        key = (resource.group, resource.version, resource.plural)
        storage = self._storages.get(key)
        if storage is None:
            view = _VIEWS.get((resource.group, resource.version, resource.plural))
            kept = resource if view is None else self._kept(resource)
            storage = self._storages[key] = ResourceStorage(
                resource, self._services, kept, view, self._projection(resource)
            )
        return storage

    def sibling(self, group: str, version: str, plural: str) -> ResourceStorage:
        """Return the storage of another resource that a subresource needs. Raises NotFound."""
        resource = self._services.catalog.find(group, version, plural)
        if resource is None:
            raise NotFound(f"{plural} are not served", details={})
        return self.storage_of(resource)

    def _projection(self, resource: Resource) -> Projection | None:
        found = _PROJECTIONS.get((resource.group, resource.plural))
        return None if found is None else Projection(self._services.store, *found)

    def _kept(self, resource: Resource) -> Resource:
        return next(other for other in self._services.catalog if other.bucket == resource.bucket and not other.storage)

    def _make(self, info: RequestInfo) -> tuple[Resource, Route] | None:
        resource = self._services.catalog.find(info.group, info.version, info.resource)
        if resource is None:
            return None
        storage = self.storage_of(resource)
        if info.subresource and all(sub.name != info.subresource for sub in resource.subresources):
            return None
        # Only after the check above: a client must not reach a route through a resource that does not declare it.
        special = self._special.get((resource.group, resource.plural, info.subresource))
        if info.subresource == "scale":
            special = self._special[ANY_SCALE]
        if special is not None:
            return resource, special(self, storage)
        return resource, self._status(storage) if info.subresource else self._main(storage)

    def _main(self, storage: ResourceStorage) -> Route:
        verbs: dict[str, Endpoint] = {
            "get": partial(get, storage),
            "list": partial(list_objects, storage, cache=self._cache),
            "watch": partial(watch, storage, hub=self._hub),
            "create": partial(create, storage),
            "update": partial(update, storage, rules_of(storage)),
            "patch": partial(patch, storage, rules_of(storage)),
            "delete": partial(delete, storage),
            "deletecollection": partial(delete_collection, storage),
        }
        route = {verb: endpoint for verb, endpoint in verbs.items() if verb in storage.resource.verbs}
        deprecation = storage.strategy.deprecation
        return {verb: warning_of(deprecation, endpoint) for verb, endpoint in route.items()} if deprecation else route

    def _status(self, storage: ResourceStorage) -> Route:
        rules = rules_of(storage, "status")
        return {
            "get": partial(get, storage),
            "update": partial(update, storage, rules),
            "patch": partial(patch, storage, rules),
        }


def _is_addressed(resource: Resource, info: RequestInfo) -> bool:
    """Return whether the path fits the resource: namespaced objects need a namespace, cluster-scoped ones have none."""
    if resource.namespaced:
        return bool(info.namespace) or not info.name or info.verb in ("list", "watch", "deletecollection")
    return not info.namespace or resource.plural == "namespaces"


def _has_form(resource: Resource, info: RequestInfo) -> bool:
    """Return whether a verb comes with a name exactly when it needs one, and with a namespace where it must."""
    if info.verb == "deletecollection":
        return bool(info.namespace) >= resource.namespaced
    if info.verb == "create":
        return bool(info.subresource) or (not info.name and bool(info.namespace) >= resource.namespaced)
    return bool(info.name) if info.verb in _ON_ONE else True
