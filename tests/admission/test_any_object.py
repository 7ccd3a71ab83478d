"""No object of the right shape breaks admission: it is admitted, changed or rejected, without an exception."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tarmac.api.status import ApiError
from tests.admission.world import World
from tests.kubernetes.test_any_object import KINDS, Grower


@pytest.mark.parametrize("seed", range(4))
async def test_admission_survives_anything(world: World, seed: int) -> None:
    await world.put("limitranges", {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": _LIMITS}})
    hard = {"pods": "1", "requests.cpu": "1", "services.nodeports": "1", "requests.storage": "1Gi"}
    await world.put("resourcequotas", {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}})
    grower, admitted = Grower(seed), 0
    for resource in KINDS:
        if resource.group == "events.k8s.io":
            continue  # the same objects as core events
        for _ in range(15):
            obj = grower.named(resource)
            old: dict[str, Any] | None = None
            if not resource.namespaced:
                del obj["metadata"]["namespace"]
            for _ in range(2):
                try:
                    world.admit(resource.plural, obj, old=old)
                    admitted += 1
                except ApiError:
                    pass
                old, obj = obj, copy.deepcopy(obj)
    assert admitted, "no object was admitted"


_LIMITS = [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "3"}}]
