"""The Pod Security Standards, by namespace label."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.status import Forbidden, Invalid
from tests.admission.world import World, pod

ENFORCE = "pod-security.kubernetes.io/enforce"
GOOD_CONTAINER = {
    "name": "c",
    "image": "x",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
GOOD: dict[str, Any] = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}


async def _namespace(world: World, name: str, **labels: str) -> None:
    keyed = {f"pod-security.kubernetes.io/{mode}": level for mode, level in labels.items()}
    await world.put("namespaces", {"metadata": {"name": name, "labels": keyed}})
    await world.put("serviceaccounts", {"metadata": {"name": "default", "namespace": name}})


def placed(namespace: str, obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"]["namespace"] = namespace
    return obj


async def test_baseline_is_the_default(world: World) -> None:
    world.admit("pods", pod())
    with pytest.raises(Forbidden) as caught:
        world.admit("pods", pod(hostNetwork=True, volumes=[{"name": "root", "hostPath": {"path": "/"}}]))
    assert caught.value.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), '
        'hostPath volumes (volume "root")'
    )


async def test_the_systems_namespaces_are_privileged(world: World) -> None:
    await _namespace(world, "kube-system")
    world.admit("pods", placed("kube-system", pod(hostNetwork=True)))


async def test_restricted_wants_everything_said(world: World) -> None:
    await _namespace(world, "strict", enforce="restricted")
    with pytest.raises(Forbidden) as caught:
        world.admit("pods", placed("strict", pod()))
    assert caught.value.message == (
        'pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container '
        '"c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must '
        'set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set '
        'securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set '
        'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )
    world.admit("pods", placed("strict", pod(containers=[GOOD_CONTAINER], **GOOD)))


async def test_warn_warns(world: World) -> None:
    await _namespace(world, "soft", enforce="privileged", warn="baseline")
    attributes = world.admit("pods", placed("soft", pod(hostPID=True)))
    assert attributes.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)']


async def test_an_unknown_level_is_refused_on_the_namespace(world: World) -> None:
    with pytest.raises(Invalid, match="must be one of privileged, baseline, restricted"):
        world.admit("namespaces", {"metadata": {"name": "n", "labels": {ENFORCE: "loose"}}})


async def test_raising_the_level_names_the_pods_that_no_longer_fit(world: World) -> None:
    await world.put("pods", pod(name="old"))
    before = {"metadata": {"name": "default"}}
    after = {"metadata": {"name": "default", "labels": {ENFORCE: "restricted"}}}
    first, second = world.admit("namespaces", after, old=before).warnings
    assert "violate the new PodSecurity enforce level" in first
    assert second.startswith("old: allowPrivilegeEscalation != false")
