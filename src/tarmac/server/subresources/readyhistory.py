"""`workloads/NAME/history`: ready and desired instances of the last minutes, which the server keeps in memory."""

from __future__ import annotations

from functools import partial

from tarmac.api.compute.names import API_VERSION
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.reader import decode
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.usagemetrics import PastUsage


def ready_history_route(storage: ResourceStorage, past: PastUsage) -> Route:
    """GET of `workloads/NAME/history`."""
    return {"get": partial(_get, storage, past)}


def _get(storage: ResourceStorage, past: PastUsage, request: Request) -> Response:
    info = request.info
    entry = storage.store.get(storage.bucket, storage.key(info.namespace, info.name))
    if entry is None:
        raise storage.not_found(info.name)
    found = past.ready(info.namespace, info.name)
    # Samples outlive a deleted Workload by half an hour, and must not show as those of a new one of the same name.
    created = decode(entry)["metadata"]["creationTimestamp"]
    found["samples"] = [each for each in found["samples"] if each["timestamp"] >= created]
    return document(request, {"kind": "WorkloadHistory", "apiVersion": API_VERSION, **found})
