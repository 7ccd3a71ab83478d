"""Subresources that change one part of an object: `finalize`, `ephemeralcontainers`, `resize`, `approval`.

Each takes the whole object, keeps the stored one except for its part, and is otherwise an ordinary update.
"""

from __future__ import annotations

from functools import partial

from tarmac.api.kubernetes.certificates import SigningRequestStrategy
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core.namespaces import validate_finalizer
from tarmac.api.kubernetes.core.pods import subresources as pods
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.routes import Route
from tarmac.server.storage.getting import get
from tarmac.server.storage.patching import patch
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.storage.updating import UpdateRules, update


def _door(storage: ResourceStorage, rules: UpdateRules) -> Route:
    return {
        "get": partial(get, storage),
        "update": partial(update, storage, rules),
        "patch": partial(patch, storage, rules),
    }


def finalize_route(storage: ResourceStorage) -> Route:
    """PUT of `namespaces/NAME/finalize`: the only way to remove finalizers from a namespace's spec."""

    def prepare(new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(new: JsonObject, _: JsonObject, errors: FieldErrors) -> None:
        # Kubernetes includes the index here, and not on creation of a namespace.
        for index, finalizer in enumerate((new.get("spec") or {}).get("finalizers") or ()):
            validate_finalizer(finalizer, f"spec.finalizers[{index}]", errors)

    return {"update": partial(update, storage, UpdateRules(prepare, validate))}


def ephemeral_containers_route(storage: ResourceStorage) -> Route:
    """`pods/NAME/ephemeralcontainers`: debug containers of a running pod. They can be added, never changed."""
    return _door(storage, UpdateRules(pods.prepare_ephemeral_update, pods.validate_ephemeral_update))


def resize_route(storage: ResourceStorage) -> Route:
    """`pods/NAME/resize`: the resources of containers, and nothing else."""
    return _door(storage, UpdateRules(pods.prepare_resize, pods.validate_resize))


def approval_route(storage: ResourceStorage) -> Route:
    """`certificatesigningrequests/NAME/approval`: the conditions Approved and Denied."""
    strategy = storage.strategy
    assert isinstance(strategy, SigningRequestStrategy)
    return _door(storage, UpdateRules(strategy.prepare_approval, strategy.validate_approval))
