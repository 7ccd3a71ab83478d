"""GPUs of a node in real containers: those that request them have device nodes and driver files, and no other.

runc and gVisor are real; the driver has no GPU (`gpubox.py`), so nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.machines.gpubox import GPU, NODE, GpuBox, gpu_box
from tests.node.planet import Json, busybox, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

NODES = "ls /dev | grep nvidia"
FILES = "ls /usr/local/nvidia/lib64"
# gVisor itself has /proc/driver/nvidia/params in sandboxes of this class.
NOTHING = "ls -d /dev/nvidia* /usr/local/nvidia /proc/driver/nvidia/gpus 2>/dev/null; echo nothing else"
EVERYTHING = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"},
]
CLASSES = ("gvisor-nvidia", "runc")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuBox]:
    with gpu_box(tmp_path_factory.mktemp("gpus"), gpus=2) as made:
        yield made


@pytest.fixture(autouse=True)
def cleared(box: GpuBox) -> Iterator[None]:
    yield
    box.client("delete", "workloads,pods", "--all", "--wait")


def asking(name: str, runtime_class: str = "", *beside: Json, number: int = 1, **container: Any) -> Json:
    """A pod that requests GPUs, and maybe a class."""
    chosen = {"runtimeClassName": runtime_class} if runtime_class else {}
    return pod(name, busybox(resources={"limits": {GPU: str(number)}}, **container), *beside, **chosen)


def gpu_of(box: GpuBox, name: str) -> str:
    """Return the UUID of a pod's only GPU, as its status names it."""
    [status] = box.get("pod", name)["status"]["containerStatuses"]
    [device] = status["allocatedResourcesStatus"][0]["resources"]
    return device["resourceID"]


@pytest.mark.parametrize("runtime_class", CLASSES)
def test_a_container_that_asked_has_its_nodes_files_and_variables(box: GpuBox, runtime_class: str) -> None:
    assert box.apply(asking("one", runtime_class)) == ""
    box.wait_ready("one")
    uuid = gpu_of(box, "one")
    minor = next(gpu.minor for gpu in box.driver.gpus if gpu.uuid == uuid)
    assert box.inside("one", NODES).split() == ["nvidia-uvm", f"nvidia{minor}", "nvidiactl"]
    libraries = box.inside("one", FILES).split()
    assert "libcuda.so.1" in libraries
    assert "libnvidia-ml.so.1" in libraries
    assert not [each for each in libraries if "encode" in each], "the capability video was not requested"
    assert box.inside("one", "echo $NVIDIA_VISIBLE_DEVICES").strip() == uuid
    assert box.inside("one", "nvidia-smi -L").startswith("GPU 0: NVIDIA H200")
    refused = box.client("exec", "one", "--", "touch", "/usr/local/nvidia/lib64/libcuda.so.1")
    assert "ead-only" in refused.stderr


def test_a_pod_that_names_no_class_gets_the_sandbox_with_gpus(box: GpuBox) -> None:
    assert box.apply(asking("plain", number=2)) == ""
    box.wait_ready("plain")
    assert box.get("pod", "plain")["spec"]["runtimeClassName"] == "gvisor-nvidia"
    assert "gvisor" in box.inside("plain", "cat /proc/version").lower()
    assert box.inside("plain", NODES).split() == ["nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl"]


@pytest.mark.parametrize("runtime_class", [*CLASSES, "gvisor"])
def test_a_container_that_did_not_ask_finds_no_node_and_no_file(box: GpuBox, runtime_class: str) -> None:
    quiet = busybox(env=EVERYTHING)
    assert box.apply(pod("quiet", quiet, runtimeClassName=runtime_class, nodeName=NODE)) == ""
    box.wait_ready("quiet")
    assert box.inside("quiet", NOTHING).strip() == "nothing else"


@pytest.mark.parametrize("runtime_class", CLASSES)
def test_a_container_beside_one_that_asked_finds_no_node_and_no_file(box: GpuBox, runtime_class: str) -> None:
    assert box.apply(asking("two", runtime_class, busybox("beside", env=EVERYTHING))) == ""
    box.wait_ready("two")
    assert box.inside("two", NODES).split() != []
    assert box.inside("two", NOTHING, "beside").strip() == "nothing else"


@pytest.mark.parametrize("runtime_class", CLASSES)
def test_variables_of_a_manifest_select_no_gpu(box: GpuBox, runtime_class: str) -> None:
    first = asking("first", runtime_class, env=EVERYTHING)
    assert box.apply(first) == ""
    box.wait_ready("first")
    assert len([each for each in box.inside("first", NODES).split() if each[6:].isdigit()]) == 1
    assert "libnvidia-encode.so.1" not in box.inside("first", FILES)
    own = gpu_of(box, "first")
    second = asking("second", runtime_class, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": own}])
    assert box.apply(second) == ""
    box.wait_ready("second")
    assert {own, gpu_of(box, "second")} == {gpu.uuid for gpu in box.driver.gpus}
    assert box.inside("first", NODES) != box.inside("second", NODES)


def test_a_pod_that_names_gvisor_and_asks_for_a_gpu_is_rejected(box: GpuBox) -> None:
    refused = box.apply(asking("wrong", "gvisor"))
    assert 'the RuntimeClass "gvisor" passes no devices on' in refused
    assert 'leave it out to get "gvisor-nvidia"' in refused
    assert box.client("get", "pod", "wrong").returncode != 0
