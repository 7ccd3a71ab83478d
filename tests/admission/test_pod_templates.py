"""Templates of Deployments, Jobs and similar kinds: their author needs the rights, not the stock controllers."""

from __future__ import annotations

import pytest

from tarmac.api.status import Forbidden
from tarmac.base.clock import rfc3339_micro
from tarmac.server.admission.pods.podtemplates import POD_TEMPLATES
from tarmac.server.security.users import User
from tests.admission.world import Object, World

JANE = User("jane", groups=("system:authenticated",))
PLURALS = [bucket.partition("/")[2] for bucket in POD_TEMPLATES]


def templated(plural: str, **spec: object) -> Object:
    """An object of a kind with a pod spec in its template."""
    content: Object = dict(spec)
    path = next(path for bucket, path in POD_TEMPLATES.items() if bucket.endswith(f"/{plural}"))
    for step in ("spec", *reversed(path)):
        content = {step: content}
    return {"metadata": {"name": "x", "namespace": "default"}, **content}


@pytest.mark.parametrize("plural", PLURALS)
@pytest.mark.parametrize("spec", [{"runtimeClassName": "runc"}, {"hostNetwork": True}, {"hostPID": True}])
async def test_the_hosts_kernel_needs_a_right_of_the_author(world: World, plural: str, spec: Object) -> None:
    obj = templated(plural, **spec)
    with pytest.raises(Forbidden, match='needs the right "use"'):
        world.admit(plural, obj, "HostKernel", user=JANE)
    with pytest.raises(Forbidden, match='needs the right "use"'):
        world.admit(plural, obj, "HostKernel", user=JANE, old=templated(plural))
    world.admit(plural, obj, "HostKernel")
    world.admit(plural, obj, "HostKernel", user=JANE, old=obj)


@pytest.mark.parametrize("plural", PLURALS)
async def test_a_sandbox_needs_no_right(world: World, plural: str) -> None:
    for spec in ({}, {"runtimeClassName": "gvisor"}):
        world.admit(plural, templated(plural, **spec), "HostKernel", user=JANE)


@pytest.mark.parametrize("plural", PLURALS)
async def test_a_built_in_priority_needs_a_right_of_the_author(world: World, plural: str) -> None:
    obj = templated(plural, priorityClassName="system-node-critical")
    with pytest.raises(Forbidden, match='the right "use"'):
        world.admit(plural, obj, "Priority", user=JANE)
    world.admit(plural, obj, "Priority", user=JANE, old=obj)
    world.admit(plural, templated(plural, priorityClassName="made-later"), "Priority", user=JANE)


@pytest.mark.parametrize("plural", PLURALS)
async def test_anti_affinity_across_namespaces_needs_rights_of_the_author(world: World, plural: str) -> None:
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "topology.kubernetes.io/region"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    obj = templated(plural, affinity=affinity)
    for old in (None, templated(plural)):
        with pytest.raises(Forbidden, match="the right to create Pods in all namespaces"):
            world.admit(plural, obj, "CrossNamespaceAntiAffinity", user=JANE, old=old)
    world.admit(plural, obj, "CrossNamespaceAntiAffinity", user=JANE, old=obj)
    world.admit(plural, obj, "CrossNamespaceAntiAffinity")


async def test_a_deployment_without_controllers_gets_a_warning(world: World) -> None:
    admitted = world.admit("deployments", templated("deployments"), "StockControllers", user=JANE)
    assert admitted.warnings == [
        "no controller runs deployments here: start `tarmac up` with --with-kubernetes-controllers, "
        "or describe it as a Workload"
    ]


@pytest.mark.parametrize(("age", "warned"), [(1.0, False), (59.0, False), (61.0, True)])
async def test_a_fresh_lease_of_the_controllers_ends_the_warning(world: World, age: float, warned: bool) -> None:
    renewed = rfc3339_micro(world.clock.now() - age)
    lease = {
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"renewTime": renewed},
    }
    await world.put("leases", lease)
    admitted = world.admit("jobs", templated("jobs"), "StockControllers", user=JANE)
    assert bool(admitted.warnings) is warned
