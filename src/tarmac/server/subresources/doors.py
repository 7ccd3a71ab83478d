"""Doors into an object that change one part of it: `finalize`, `ephemeralcontainers`, `resize`, `approval`.

Each takes the whole object, keeps everything of the stored one but its part, and is otherwise an ordinary update.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.kubernetes.core.pods.validation import validate_pod
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.routes import Route
from tarmac.server.storage.getting import get
from tarmac.server.storage.patching import patch
from tarmac.server.storage.served import Served
from tarmac.server.storage.updating import Rules, update


def _door(served: Served, rules: Rules) -> Route:
    return {
        "get": partial(get, served),
        "update": partial(update, served, rules),
        "patch": partial(patch, served, rules),
    }


def finalize_route(served: Served) -> Route:
    """PUT of `namespaces/NAME/finalize`: the only way to take off a namespace's own finalizers."""

    def prepare(new: JsonObject, old: JsonObject) -> None:
        _keep(new, old, "status")

    def validate(new: JsonObject, _: JsonObject, errors: FieldErrors) -> None:
        served.strategy.validate(new, errors)

    return {"update": partial(update, served, Rules(prepare, validate))}


def ephemeral_containers_route(served: Served) -> Route:
    """`pods/NAME/ephemeralcontainers`: containers to look into a running pod with. They can be added, never changed."""

    def prepare(new: JsonObject, old: JsonObject) -> None:
        added = (new.get("spec") or {}).get("ephemeralContainers")
        _restore(new, old)
        if added:
            new["spec"]["ephemeralContainers"] = added
        else:
            new["spec"].pop("ephemeralContainers", None)

    def validate(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        path = "spec.ephemeralContainers"
        known = {container["name"]: container for container in new["spec"].get("ephemeralContainers") or ()}
        for container in old["spec"].get("ephemeralContainers") or ():
            name = container["name"]
            if name not in known:
                errors.forbidden(path, f'existing ephemeral containers "{name}" may not be removed')
            elif known[name] != container:
                errors.forbidden(path, f'existing ephemeral containers "{name}" may not be changed')
        validate_pod(new, errors)

    return _door(served, Rules(prepare, validate))


def resize_route(served: Served) -> Route:
    """`pods/NAME/resize`: what containers ask for, and nothing else."""

    def prepare(new: JsonObject, old: JsonObject) -> None:
        wanted = {field: _by_name(new, field) for field in ("containers", "initContainers")}
        _restore(new, old)
        for field, containers in wanted.items():
            if field in new["spec"]:
                new["spec"][field] = [_resized(one, containers) for one in new["spec"][field]]

    def validate(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        before = qos_class(old["spec"])
        if qos_class(new["spec"]) != before:
            errors.invalid("spec", before, "Pod QOS Class may not change as a result of resizing")
        validate_pod(new, errors)

    return _door(served, Rules(prepare, validate))


def approval_route(served: Served) -> Route:
    """`certificatesigningrequests/NAME/approval`: the conditions Approved and Denied."""

    def prepare(new: JsonObject, old: JsonObject) -> None:
        conditions = (new.get("status") or {}).get("conditions")
        _restore(new, old)
        status = dict(old.get("status") or {})
        if conditions is not None:
            status["conditions"] = [_stamped(one, served.services.now()) for one in conditions]
        new["status"] = status

    return _door(served, Rules(prepare, served.strategy.validate_status_update))


def _stamped(condition: JsonObject, now: str) -> JsonObject:
    """Clients name the condition; when it came about is for the server to say."""
    stamped = {**condition}
    for field in ("lastUpdateTime", "lastTransitionTime"):
        if not stamped.get(field):
            stamped[field] = now
    return stamped


def _restore(new: JsonObject, old: JsonObject) -> None:
    """Make `new` the old object again, but for its managers."""
    managers = new["metadata"].get("managedFields")
    new.clear()
    new.update(old)
    new["metadata"] = dict(old["metadata"])
    if managers is not None:
        new["metadata"]["managedFields"] = managers
    if "spec" in old:
        new["spec"] = dict(old["spec"])


def _keep(new: JsonObject, old: JsonObject, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _by_name(pod: JsonObject, field: str) -> Mapping[str, JsonObject]:
    return {container["name"]: container for container in (pod.get("spec") or {}).get(field) or ()}


def _resized(container: JsonObject, wanted: Mapping[str, JsonObject]) -> JsonObject:
    other: Any = wanted.get(container["name"])
    if other is None:
        return container
    resized = {**container}
    for field in ("resources", "resizePolicy"):
        _keep(resized, other, field)
    return resized
