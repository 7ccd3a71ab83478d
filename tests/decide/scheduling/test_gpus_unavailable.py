"""GPUs in sandboxes that no node offers: the refusal has the node's own words, and a change that helps."""

from __future__ import annotations

from typing import Any

from .world import World, node, pod

GPU = "datumcloud.com/nvidia-h200"
CLASS = "gvisor-nvidia"


def a_gpu_node(handlers: list[str], *, passed: str, closed: str = "") -> dict[str, Any]:
    """Return a node with one GPU that its sandboxes cannot use."""
    devices = {"node.tarmac/devices": f'{{"resources":["{GPU}"],"handlers":[{passed}]}}'}
    found = node("n", handlers=handlers, annotations=devices, devices={GPU: "1"})
    condition = {"type": "GPUsSandboxable", "status": "False", "reason": "DriverUnknown", "message": closed}
    found["status"]["conditions"] = [*found["status"].get("conditions", []), *([condition] if closed else [])]
    return found


def refusals(where: dict[str, Any], handler: str) -> list[tuple[str, str, str]]:
    """Return reason, message and change."""
    verdict = World(where).choose(pod("p", {GPU: "1"}, runtimeClassName=handler), handler=handler)
    return [(each.reason, each.message, each.change) for each in verdict.refusals]


def test_a_driver_that_gvisor_does_not_know_is_named_by_the_refusal() -> None:
    where = a_gpu_node(
        ["gvisor", "runc"], passed='"","runc"', closed="gVisor does not know NVIDIA's driver 1.2; install 1.3"
    )
    head, kind = refusals(where, CLASS)
    assert head[0] == "RuntimeUnavailable"
    assert kind[1] == (
        "Sandboxes of node n cannot use its GPUs: gVisor does not know NVIDIA's driver 1.2; install 1.3."
    )
    assert "ask for the RuntimeClass runc" in head[2]


def test_sandboxes_that_were_switched_off_are_named_by_the_refusal() -> None:
    where = a_gpu_node(["gvisor", CLASS], passed='"","runc"', closed="the feature gate SandboxedGPUs is off")
    head, kind = refusals(where, CLASS)
    assert head[0] == "DeviceUnsupported"
    assert kind[1] == "Sandboxes of node n cannot use its GPUs: the feature gate SandboxedGPUs is off."


def test_a_virtual_machine_with_a_gpu_is_told_what_it_would_need() -> None:
    head, kind = refusals(a_gpu_node(["gvisor", "vm"], passed=f'"","{CLASS}"'), "vm")
    assert (head[0], head[2]) == ("DeviceUnsupported", "Ask for a sandbox instead of a virtual machine.")
    assert kind[1] == (f"Runtime vm of node n does not pass {GPU} on to containers: it would need VFIO and an IOMMU.")


def test_a_node_without_gpus_in_sandboxes_says_so() -> None:
    _, *kinds = refusals(node("n", handlers=["gvisor"]), CLASS)
    assert any(each[1] == "Node n has no GPU that sandboxes can use." for each in kinds)
