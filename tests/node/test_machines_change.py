"""Machines on real nodes are rolled out, scaled and restarted as containers are, and wait for missing objects.

Their guests are a few bytes that write their name to the serial port, so that each start takes a moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.node.planet import GUESTS, Json, Planet, eventually, machine_processes
from tests.node.test_machines import ready_to_boot
from tests.support.guestimages import machine_image
from tools.cache import ROOT

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
LABEL = "compute.datumapis.com/workload-name"


def workload(image: str, replicas: int = 1) -> Json:
    """Return machines in DFW with a disk that they boot from and one that they keep."""
    disks: list[tuple[str, dict[str, Any]]] = [
        ("boot", {"populator": {"image": {"name": f"test/{image}"}}}),
        ("data", {"populator": {"filesystem": {"type": "ext4"}}, "resources": {"requests": {"storage": "10Gi"}}}),
    ]
    spec = {
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "500m", "memory": "128Mi"}},
            "virtualMachine": {"volumeAttachments": [{"name": name} for name, _ in disks]},
        },
        "networkInterfaces": [{"network": {"name": "default"}}],
        "volumes": [{"name": name, "disk": {"template": {"spec": each}}} for name, each in disks],
    }
    placement = {"name": "here", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": replicas}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "roll"},
        "spec": {"template": {"spec": spec}, "placements": [placement]},
    }


@pytest.fixture(scope="module")
def machines(planet: Planet) -> Iterator[Planet]:
    """A planet with one machine of the first image."""
    for node in ("dfw-0", "lhr-0"):
        ready_to_boot(planet, node)
    for file, content in GUESTS.items():
        planet.apply(machine_image(f"test-{Path(file).stem}", file, content))
    planet.apply(workload("first"))
    planet.wait("workload/roll", "jsonpath={.status.readyReplicas}=1")
    yield planet
    gone(planet, "roll")


def pods(planet: Planet, name: str = "roll") -> list[Json]:
    return planet.get("pods", "-l", f"{LABEL}={name}")["items"]


def gone(planet: Planet, name: str) -> None:
    """Wait until a Workload, and all its objects on nodes, are gone."""
    planet.kubectl.run("delete", "workload", name, timeout=60)
    eventually(lambda: not pods(planet, name), 60, "the end of its pods")
    eventually(lambda: not disks(planet), 60, "the end of its disks")


def disks(planet: Planet) -> list[Path]:
    return sorted(planet.data_dir.glob("cities/*/agent/disks/*.img"))


def disk_of(planet: Planet, pod: str, volume: str) -> Path:
    """Return the file of a machine's disk."""
    claim = planet.get("pvc", f"{pod}-{volume}")
    return planet.data_dir / f"cities/dfw/agent/disks/{claim['spec']['volumeName']}.img"


def process_of(planet: Planet, pod: str) -> int:
    [found] = [pid for pid, name in machine_processes(planet.data_dir).items() if name == pod]
    return found


def in_filesystem(disk: Path, request: str) -> str:
    """Run a command on the ext4 of a disk, as the guest would."""
    return subprocess.run(["debugfs", "-w", "-R", request, disk], capture_output=True, text=True, check=True).stdout


def test_a_machine_that_dies_restarts_with_its_address_and_disks(machines: Planet) -> None:
    [before] = pods(machines)
    name = before["metadata"]["name"]
    files = [os.stat(disk_of(machines, name, each)).st_ino for each in ("boot", "data")]
    os.kill(process_of(machines, name), signal.SIGKILL)
    eventually(lambda: pods(machines)[0]["status"]["containerStatuses"][0]["restartCount"] == 1, 30, "its restart")
    machines.wait(f"pod/{name}", "condition=Ready")
    [after] = pods(machines)
    assert after["status"]["podIPs"] == before["status"]["podIPs"]
    ended = after["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (255, "MachineFailed")
    assert [os.stat(disk_of(machines, name, each)).st_ino for each in ("boot", "data")] == files
    assert machines.kubectl("logs", name).startswith("first\n")


def test_another_image_means_another_boot_disk_and_the_data_disk_keeps_its_file(
    machines: Planet, tmp_path: Path
) -> None:
    name = pods(machines)[0]["metadata"]["name"]
    boot, data = (disk_of(machines, name, each) for each in ("boot", "data"))
    (tmp_path / "kept").write_text("written before the rollout")
    in_filesystem(data, f"write {tmp_path / 'kept'} kept")
    machines.apply(workload("second"))
    eventually(
        lambda: machines.kubectl.run("logs", name).out.startswith("second\n"), 60, "the machine of the new image"
    )
    machines.wait("workload/roll", "jsonpath={.status.updatedReplicas}=1")
    assert disk_of(machines, name, "data") == data
    assert in_filesystem(data, "cat kept") == "written before the rollout"
    assert disk_of(machines, name, "boot") != boot
    assert not boot.exists()
    assert "BootDiskReplaced" in machines.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")


def test_machines_come_and_go_with_the_number_that_is_wanted(machines: Planet) -> None:
    [first] = pods(machines)
    process = process_of(machines, first["metadata"]["name"])
    machines.apply(workload("second", replicas=2))
    machines.wait("workload/roll", "jsonpath={.status.readyReplicas}=2")
    assert len({each["status"]["podIP"] for each in pods(machines)}) == 2
    assert len(disks(machines)) == 4
    machines.apply(workload("second"))
    eventually(lambda: len(pods(machines)) == 1, 60, "one of them to go")
    eventually(lambda: len(disks(machines)) == 2, 60, "its disks to go")
    assert process_of(machines, first["metadata"]["name"]) == process, "the other machine is unaffected"


def test_a_machine_is_stopped_and_started_with_its_address_and_what_it_wrote(machines: Planet, tmp_path: Path) -> None:
    [before] = pods(machines)
    name = before["metadata"]["name"]
    instance = machines.get("instance", name)["metadata"]["uid"]
    boot, data = (disk_of(machines, name, each) for each in ("boot", "data"))
    inodes = [os.stat(each).st_ino for each in (boot, data)]
    machines.tarmac("machine", "stop", name)
    eventually(lambda: not pods(machines) and not machine_processes(machines.data_dir), 90, "its end")
    machines.wait(f"instance/{name}", "jsonpath={.status.summary.status}=Stopped")
    machines.wait("workload/roll", "jsonpath={.status.summary.status}=Stopped")
    (tmp_path / "meanwhile").write_text("the disk is there while its machine is stopped")
    in_filesystem(data, f"write {tmp_path / 'meanwhile'} meanwhile")
    assert "tarmac machine start" in machines.tarmac("why", f"instance/{name}")
    machines.tarmac("machine", "start", name)
    machines.wait("workload/roll", "jsonpath={.status.readyReplicas}=1")
    [after] = pods(machines)
    assert after["status"]["podIPs"] == before["status"]["podIPs"]
    assert machines.get("instance", name)["metadata"]["uid"] == instance
    assert [os.stat(disk_of(machines, name, each)).st_ino for each in ("boot", "data")] == inodes
    assert in_filesystem(data, "cat meanwhile") == "the disk is there while its machine is stopped"
    eventually(lambda: machines.kubectl("logs", name).startswith("second\n"), 30, "its first line")


def test_the_least_machine_boots_the_catalogues_image_from_a_file_of_its_node(machines: Planet) -> None:
    gone(machines, "roll")
    example = yaml.safe_load((ROOT / "examples" / "virtualmachine-minimum.yaml").read_text())
    example["spec"]["placements"][0]["cityCodes"] = ["DFW", "LHR"]  # the cities of this planet
    name = example["metadata"]["name"]

    def speaks(pod: str) -> bool:
        return machines.kubectl("logs", pod).startswith("first\n")

    try:
        machines.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(example))
        machines.wait(f"workload/{name}", "jsonpath={.status.readyReplicas}=2")
        for each in pods(machines, name):  # ready means that its process runs: its first line may come later
            eventually(partial(speaks, each["metadata"]["name"]), 30, "its first line")
    finally:
        gone(machines, name)
