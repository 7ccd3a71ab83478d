"""GPUs, names and files of the driver, read below a fake root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.devices.nvidia import pluginmessages
from tarmac.agent.devices.nvidia.allocation import container_settings
from tarmac.agent.devices.nvidia.driverfiles import driver_files, library_folder
from tarmac.agent.devices.nvidia.gpunames import checked_names, resource_of
from tarmac.agent.devices.nvidia.kerneldriver import driver_version, missing_node, read_gpus
from tarmac.agent.devices.nvidia.pluginmessages import ContainerSettings
from tests.agent.devices.nvidia.fakedriver import H200, VERSION, FakeDriver


@pytest.mark.parametrize(
    ("product", "resource"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("NVIDIA H100 PCIe", "nvidia-h100"),
        ("NVIDIA H100 NVL", "nvidia-h100"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-tesla-a100"),
        ("NVIDIA A100-PCIE-40GB", "nvidia-tesla-a100"),
        ("Tesla V100-SXM2-16GB", "nvidia-tesla-v100"),
        ("Tesla T4", "nvidia-tesla-t4"),
        ("NVIDIA L40S", "nvidia-l40s"),
        ("NVIDIA GeForce RTX 4090", "nvidia-geforce-rtx-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "nvidia-rtx-6000-ada-generation"),
        ("", "nvidia-gpu"),
        ("NVIDIA " + "x" * 200, "nvidia-" + "x" * 56),
    ],
)
def test_a_product_has_a_resource_name_without_form_factor_and_memory(product: str, resource: str) -> None:
    assert resource_of(product) == f"datumcloud.com/{resource}"


def test_an_administrator_adds_names_and_an_impossible_one_is_rejected() -> None:
    assert resource_of("NVIDIA H200", checked_names({"h200": "big"})) == "datumcloud.com/nvidia-big"
    assert resource_of("NVIDIA A100", checked_names({"h200": "big"})) == "datumcloud.com/nvidia-tesla-a100"
    with pytest.raises(ValueError, match=r"h200=Big: a name has at most 56 lower-case letters"):
        checked_names({"h200": "Big"})


def test_the_kernel_pages_list_the_gpus_by_minor_number(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200, "Tesla T4")
    assert driver_version(driver.root) == VERSION
    found = read_gpus(driver.root)
    assert [(gpu.uuid, gpu.node, gpu.product) for gpu in found] == [
        ("GPU-00000000", "/dev/nvidia0", H200), ("GPU-00000001", "/dev/nvidia1", "Tesla T4"),
    ]  # fmt: skip
    assert missing_node(found[0], driver.root) == ""
    (driver.root / "dev/nvidia-uvm").unlink()
    assert missing_node(found[0], driver.root) == "/dev/nvidia-uvm"


@pytest.mark.parametrize(
    ("line", "instead"),
    [("GPU UUID: \t GPU-00000000", "GPU UUID: \t GPU-????????"), ("GPU Excluded:\t No", "GPU Excluded:\t Yes")],
)
def test_a_gpu_that_is_excluded_or_not_initialized_is_not_listed(tmp_path: Path, line: str, instead: str) -> None:
    driver = FakeDriver(tmp_path / "root", H200)
    page = driver.root / f"proc/driver/nvidia/gpus/{driver.gpus[0].bus}/information"
    page.write_text(page.read_text().replace(line, instead))
    assert read_gpus(driver.root) == []


def test_a_machine_without_the_driver_has_neither_version_nor_gpus(tmp_path: Path) -> None:
    assert driver_version(tmp_path) == ""
    assert read_gpus(tmp_path) == []
    assert driver_files(tmp_path, "1.2", ["compute"]) == []


def test_a_container_gets_the_libraries_of_its_capabilities_and_no_other_file(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200)
    libraries, place = "/usr/local/nvidia/lib64", driver.root / "usr/lib/x86_64-linux-gnu"
    compute = {file.container: file.host for file in driver_files(driver.root, VERSION, ["compute"])}
    assert compute == {
        f"{libraries}/libcuda.so.1": str(place / f"libcuda.so.{VERSION}"),
        f"{libraries}/libnvidia-ptxjitcompiler.so.1": str(place / f"libnvidia-ptxjitcompiler.so.{VERSION}"),
        f"{libraries}/libnvidia-gpucomp.so.{VERSION}": str(place / f"libnvidia-gpucomp.so.{VERSION}"),
    }
    utility = [file.container for file in driver_files(driver.root, VERSION, ["utility"])]
    assert utility == [f"{libraries}/libnvidia-ml.so.1", "/usr/local/nvidia/bin/nvidia-smi"]


def test_libraries_of_the_loaded_version_win_over_those_of_a_former_driver(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200)
    former = driver.root / "usr/local/nvidia/lib64"
    former.mkdir(parents=True)
    (former / "libcuda.so.1").write_text("old")
    assert library_folder(driver.root, VERSION) == driver.root / "usr/lib/x86_64-linux-gnu"
    assert library_folder(driver.root, "1.2") == former


def test_the_settings_of_a_container_name_its_gpus_and_the_control_nodes(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200, H200)
    gpus = read_gpus(driver.root)
    answer = container_settings(gpus[1:], [], driver.root, ["compute", "utility"])
    assert dict(answer.envs) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-00000001",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "PATH": "/usr/local/nvidia/bin",
    }
    assert answer.devices == [
        (f"{driver.root}{node}", node) for node in ("/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm")
    ]


def test_the_messages_are_those_of_the_api() -> None:
    settings = ContainerSettings({"A": "b"}, [("/h/lib", "/c/lib")], [("/h/dev", "/dev/x")])
    part = pb.ContainerAllocateResponse(
        envs={"A": "b"},
        mounts=[pb.Mount(container_path="/c/lib", host_path="/h/lib", read_only=True)],
        devices=[pb.DeviceSpec(container_path="/dev/x", host_path="/h/dev", permissions="rw")],
    )
    expected = pb.AllocateResponse(container_responses=[part, part])
    assert pluginmessages.allocate_response([settings, settings]) == expected.SerializeToString()
    register = pb.RegisterRequest(version="v1beta1", endpoint="e.sock", resource_name="a/b")
    assert pluginmessages.registration("v1beta1", "e.sock", "a/b") == register.SerializeToString()
    listed = pb.ListAndWatchResponse(
        devices=[pb.Device(ID="x", health="Healthy"), pb.Device(ID="y", health="Unhealthy")]
    )
    assert pluginmessages.device_list({"x": True, "y": False}) == listed.SerializeToString()
    ids = [["x" * 200, "y"], []]
    asked = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=each) for each in ids])
    assert pluginmessages.allocate_request(asked.SerializeToString()) == ids


@pytest.mark.parametrize(
    "message", [b"\x0a", b"\x0a\x05ab", b"\x12\x00", b"\x0a" + b"\xff" * 9, b"\x0a\x03\x0a\x01\xff"]
)
def test_a_request_that_is_no_message_is_rejected(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown|early|end|decode"):
        pluginmessages.allocate_request(message)
