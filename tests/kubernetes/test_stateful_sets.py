"""Templates of StatefulSets are validated as their pods get them: with volumes of their claims."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tarmac.api.kubernetes.apps.statefulsets import StatefulSetStrategy
from tarmac.base.fielderrors import FieldErrors

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CONTAINER = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}


def found(claims: tuple[str, ...], **spec: Any) -> list[str]:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER], **spec}}
    made: dict[str, Any] = {"metadata": {"name": "db"}, "spec": {"selector": {"matchLabels": labels}}}
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": name}, "spec": CLAIM} for name in claims]
    made["spec"]["template"] = copy.deepcopy(template)
    strategy = StatefulSetStrategy()
    strategy.default(made)
    before = copy.deepcopy(made)
    with FieldErrors() as errors:
        strategy.validate(made, errors)
    assert made == before
    return [each.path for each in errors]


@pytest.mark.parametrize("volumes", [[], [{"name": "data", "emptyDir": {}}], [{"name": "e", "emptyDir": {}}]])
def test_a_stateful_set_mounts_its_claims(volumes: list[Any]) -> None:
    assert found(("data",), volumes=volumes) == []
    assert found(("data",), hostname="Not-A-Label", subdomain="-") == []


def test_a_mount_without_a_volume_or_claim_is_invalid() -> None:
    assert found(("other",)) == ["spec.template.spec.containers[0].volumeMounts[0].name"]
    assert found(()) == ["spec.template.spec.containers[0].volumeMounts[0].name"]
