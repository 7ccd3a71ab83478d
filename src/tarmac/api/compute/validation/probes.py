"""Probes and hooks of a container, checked by the rules of Pods.

Our objects are stored as written, so a copy gets the defaults of a Pod before those rules are applied. One rule is our
own: a probe must not name a host. The node sends the probe from its own network, and workloads must not use that.
"""

from __future__ import annotations

import copy

from tarmac.api.checks import mapping
from tarmac.api.kubernetes.core.pods.defaults import default_container
from tarmac.api.kubernetes.core.pods.probes import validate_lifecycle_and_probes
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

DEFAULT_GRACE = 30
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_FIELDS = ("lifecycle", *PROBES)


def check_probes(container: JsonObject, grace: int, path: str, errors: FieldErrors) -> None:
    """Check the probes of a regular container with a grace period of `grace` seconds."""
    stated = {field: container[field] for field in _FIELDS if container.get(field) is not None}
    if not stated:
        return
    _hosts(stated, path, errors)
    stated = copy.deepcopy(stated)
    default_container(stated)
    validate_lifecycle_and_probes(stated, path, grace, errors)


def forbid_probes(container: JsonObject, path: str, errors: FieldErrors) -> None:
    """Reject probes of an init container: it runs to completion before any probe."""
    for field in _FIELDS:
        if container.get(field) is not None:
            errors.forbidden(f"{path}.{field}", "may not be set for init containers")


def _hosts(stated: JsonObject, path: str, errors: FieldErrors) -> None:
    places = [(name, mapping(stated, name)) for name in PROBES]
    places += [(f"lifecycle.{hook}", mapping(stated, "lifecycle", hook)) for hook in _HOOKS]
    for place, handler in places:
        for kind in ("httpGet", "tcpSocket"):
            if mapping(handler, kind).get("host"):
                detail = "must be empty: the instance itself is asked; a `Host` header may name another"
                errors.forbidden(f"{path}.{place}.{kind}.host", detail)
