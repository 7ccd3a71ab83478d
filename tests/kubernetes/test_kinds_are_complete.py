"""Every served kind of Kubernetes has rules, columns and selectors."""

from __future__ import annotations

import pytest

from tarmac.api.kubernetes.resources import resources
from tarmac.api.kubernetes.strategies import selectable_for
from tarmac.api.resource import Resource, Strategy

SERVED = resources()
# answered and never stored, so they have no rules
ANSWERED = {"authentication.k8s.io", "authorization.k8s.io", "metrics.k8s.io"}


def _id(resource: Resource) -> str:
    return f"{resource.group}/{resource.plural}"


@pytest.mark.parametrize("resource", [one for one in SERVED if one.stored], ids=_id)
def test_every_stored_kind_has_rules(resource: Resource) -> None:
    assert type(resource.strategy) is not Strategy


@pytest.mark.parametrize("resource", SERVED, ids=_id)
def test_selectable_fields_are_always_there(resource: Resource) -> None:
    empty = {"metadata": {"name": "x", "namespace": "default"}}
    values = resource.strategy.selectable_fields(empty)
    assert tuple(values) == selectable_for(resource.group, resource.kind)
    assert all(isinstance(value, str) for value in values.values())


@pytest.mark.parametrize("resource", SERVED, ids=_id)
def test_columns_never_fail_on_an_empty_object(resource: Resource) -> None:
    empty = {"metadata": {"name": "x", "namespace": "default"}, "roleRef": {}}
    cells = [column.value(empty) for column in resource.columns]
    assert cells
    assert all(cell is None or isinstance(cell, (str, int, bool)) for cell in cells)
