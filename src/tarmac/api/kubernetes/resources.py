"""Kubernetes' own served resources: generated discovery rows joined with the strategies and columns written here."""

from __future__ import annotations

from functools import partial

import msgspec

from tarmac.api.kubernetes.columns import columns_for
from tarmac.api.kubernetes.strategies import name_validator_for, selectable_for, strategy_for
from tarmac.api.resource import Resource, Subresource
from tarmac.api.tables import load_schema, read_generated

# answered, never stored
_ANSWERED = {"authentication.k8s.io", "authorization.k8s.io", "metrics.k8s.io"}
_SCALE = (".spec.replicas", ".status.replicas", ".spec.selector")
# the same objects under two groups or versions
_VIEWS = {
    ("events.k8s.io", "v1", "events"): "core/events",
    ("autoscaling", "v1", "horizontalpodautoscalers"): "autoscaling/horizontalpodautoscalers",
}


class _Subresource(msgspec.Struct):
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str | None = None
    version: str | None = None


class _Row(msgspec.Struct):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[_Subresource, ...]


def resources() -> list[Resource]:
    """Return every served resource of Kubernetes itself."""
    return [_resource(row) for row in msgspec.json.decode(read_generated("resources.json"), type=list[_Row])]


def _resource(row: _Row) -> Resource:
    strategy = strategy_for(row.group, row.kind, row.version)
    return Resource(
        group=row.group,
        version=row.version,
        kind=row.kind,
        plural=row.plural,
        singular=row.singular,
        namespaced=row.namespaced,
        load_schema=partial(load_schema, row.group, row.version, row.kind),
        strategy=strategy,
        short_names=row.short_names,
        categories=row.categories,
        verbs=row.verbs,
        subresources=tuple(
            Subresource(item.name, item.kind, item.verbs, item.group, item.version) for item in row.subresources
        ),
        columns=columns_for(row.group, row.kind),
        native=True,
        selectable=selectable_for(row.group, row.kind),
        validate_name=name_validator_for(row.group, row.kind),
        storage=_VIEWS.get((row.group, row.version, row.plural)),
        stored=row.group not in _ANSWERED and row.plural != "bindings",
        scale=_SCALE if any(item.name == "scale" for item in row.subresources) else None,
    )
