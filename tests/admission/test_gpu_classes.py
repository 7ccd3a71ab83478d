"""The RuntimeClass of Pods and Workloads that request GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.kubernetes.runtimeclasses import proxied_devices
from tarmac.api.status import Forbidden
from tests.admission.world import World

GPU = "datumcloud.com/nvidia-h200"


def a_pod(resource: str, **spec: Any) -> dict[str, Any]:
    """A Pod that requests one of these."""
    amounts = {"limits": {resource: "1"}, "requests": {resource: "1"}}
    containers = [{"name": "main", "image": "x/y:1", "resources": amounts}]
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": containers, **spec}}


async def test_a_pod_that_requests_a_gpu_gets_the_class_that_passes_it_on(world: World) -> None:
    admitted = world.admit("pods", a_pod(GPU)).obj or {}
    assert admitted["spec"]["runtimeClassName"] == "gvisor-nvidia"


@pytest.mark.parametrize("resource", ["example.com/gpu", "nvidia.com/gpu", "datumcloud.com/fpga"])
def test_other_devices_do_not_change_the_class(resource: str) -> None:
    assert proxied_devices(a_pod(resource)["spec"]) == []


async def test_a_pod_that_names_gvisor_and_requests_a_gpu_is_rejected_with_the_fix(world: World) -> None:
    with pytest.raises(Forbidden) as refused:
        world.admit("pods", a_pod(GPU, runtimeClassName="gvisor"))
    assert (
        f'spec.runtimeClassName: the RuntimeClass "gvisor" passes no devices on, and {GPU} is requested; '
        'leave it out to get "gvisor-nvidia", or name a class that passes devices on'
    ) in str(refused.value)


async def test_a_class_with_the_hosts_kernel_may_be_named(world: World) -> None:
    admitted = world.admit("pods", a_pod(GPU, runtimeClassName="runc")).obj or {}
    assert admitted["spec"]["runtimeClassName"] == "runc"


async def test_a_workload_that_names_gvisor_and_requests_a_gpu_is_rejected_with_the_field(world: World) -> None:
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "1", "memory": "1Gi", GPU: "1"}},
        "sandbox": {"containers": [{"name": "main", "image": "docker.io/x/y:1"}]},
    }
    template = {
        "metadata": {"annotations": {"compute.datumapis.com/runtime-class": "gvisor"}},
        "spec": {"runtime": runtime},
    }
    workload = {"metadata": {"name": "w", "namespace": "default"}, "spec": {"template": template, "placements": []}}
    said = r"annotation compute\.datumapis\.com/runtime-class: the RuntimeClass .gvisor. passes no devices on"
    with pytest.raises(Forbidden, match=said):
        world.admit("workloads", workload, "RuntimeClass")
    template["metadata"] = {}
    world.admit("workloads", workload, "RuntimeClass")
