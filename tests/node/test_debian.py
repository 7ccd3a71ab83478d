"""Debian 12 with systemd and cloud-init starts as its Workload describes, with the platform's additions.

It takes a minute or two of a processor where machines are emulated, so there is one of it, and it writes all its
findings to the serial port at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tarmac.runtimes.parts import parts_folder
from tests.node.planet import Json, Planet, eventually
from tests.node.test_machines import ready_to_boot

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=4, only=True), pytest.mark.timeout(1200)]
PATIENCE = 900.0  # without KVM, on a busy machine; on a quiet one it takes a tenth of that
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@example.com"

REPORT = """\
{
    echo
    echo "name=$(hostname)"
    echo "user=$(id -un ada) of $(id -Gn ada)"
    echo "key=$(cut -d' ' -f3 /home/ada/.ssh/authorized_keys)"
    echo "bootcmd=$(cat /run/bootcmd)"
    echo "written=$(cat /etc/motto) $(stat -c %a /etc/motto)"
    echo "files=$(cat /etc/settings/hello)"
    echo "data=$(findmnt -no FSTYPE,OPTIONS /data | cut -d, -f1 | tr -s ' ')"
    echo "disks=$(ls /dev/disk/by-id | grep ^datumcloud- | tr '\\n' ' ')"
    echo "root=$(readlink -f /dev/disk/by-id/datumcloud-persistent-disk-0)"
    for each in eth0 eth1; do echo "$each=$(ip -4 -o address show dev $each | awk '{print $4}')"; done
    echo "six=$(ip -6 -o address show dev eth0 scope global | awk '{print $4}')"
    echo "resolves=$(getent hosts kubernetes.default.svc.cluster.local | awk '{print $2}')"
    echo "failed=$(systemctl --failed --no-legend --plain | awk '{print $1}' | tr '\\n' ' ')"
    echo "report=over"
} > /dev/ttyS0
"""

CLOUD_CONFIG = {
    "users": ["default", {"name": "ada", "groups": "sudo", "ssh_authorized_keys": [KEY]}],
    "bootcmd": [["sh", "-c", "echo ran > /run/bootcmd"]],  # it must not replace the platform's own steps
    "write_files": [
        {"path": "/etc/motto", "content": "as written", "permissions": "0640"},
        {"path": "/usr/local/bin/report", "content": REPORT, "permissions": "0755"},
    ],
    "runcmd": [["sh", "/usr/local/bin/report"]],
}


def workload() -> Json:
    """Two disks, a volume with files, and two networks."""
    volumes = [
        {"name": "boot", "disk": {"template": {"spec": {"populator": {"image": {"name": "tarmac/debian-12"}}}}}},
        {
            "name": "data",
            "disk": {
                "template": {
                    "spec": {
                        "populator": {"filesystem": {"type": "ext4"}},
                        "resources": {"requests": {"storage": "10Gi"}},
                    }
                }
            },
        },
        {"name": "settings", "configMap": {"name": "debian"}},
    ]
    machine = {
        "volumeAttachments": [
            {"name": "boot"},
            {"name": "data", "deviceName": "data", "mountPath": "/data"},
            {"name": "settings", "mountPath": "/etc/settings"},
        ],
        "cloudInit": {"userData": "#cloud-config\n" + yaml.safe_dump(CLOUD_CONFIG)},
    }
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "2", "memory": "512Mi"}}
    spec = {
        "runtime": {"resources": resources, "virtualMachine": machine},
        "networkInterfaces": [
            {"network": {"name": "default"}},
            {"network": {"name": "debian"}, "ipFamilies": ["IPv4"]},
        ],
        "volumes": volumes,
    }
    placement = {"name": "here", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "debian"},
        "spec": {"template": {"spec": spec}, "placements": [placement]},
    }


SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "debian"}, "data": {"hello": "world"}}
NETWORK = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "Network",
    "metadata": {"name": "debian"},
    "spec": {"ipam": {"mode": "Auto", "ipv4Range": "172.21.0.0/16"}, "ipFamilies": ["IPv4"]},
}


@pytest.fixture
def debian(planet: Planet) -> Iterator[tuple[Planet, str]]:
    """Yield a planet, and the name of its machine."""
    ready_to_boot(planet)
    if not (Path(parts_folder()) / "machine-images" / "debian-12.json").exists():
        pytest.skip("NOT RUN: there is no debian-12 in the folder of machine images: run `make machine-images` as root")
    planet.apply(NETWORK)
    planet.apply(SETTINGS, workload())
    try:
        eventually(lambda: bool(_pods(planet)), 30, "its Pod")
        yield planet, _pods(planet)[0]["metadata"]["name"]
    finally:
        planet.kubectl.run("delete", "workload", "debian", "--wait=false")
        eventually(lambda: all("deletionTimestamp" in each["metadata"] for each in _pods(planet)), 30, "its deletion")
        for each in _pods(planet):
            planet.kubectl.run("delete", "pod", each["metadata"]["name"], "--grace-period=1", timeout=60)
        eventually(lambda: not _pods(planet), 60, "its end")
        planet.kubectl.run("delete", "configmap,network", "debian", "--wait=false")


def _pods(planet: Planet) -> list[Json]:
    return planet.get("pods", "-l", "compute.datumapis.com/workload-name=debian")["items"]


def test_debian_comes_up_as_written(debian: tuple[Planet, str], capfd: pytest.CaptureFixture[str]) -> None:
    planet, name = debian
    began = time.monotonic()
    eventually(lambda: "report=over" in planet.kubectl.run("logs", name).out, PATIENCE, "the report of the guest")
    with capfd.disabled():
        print(f"\nDebian reported {time.monotonic() - began:.0f} s after its Pod was made")
    lines = planet.kubectl("logs", name).splitlines()
    said = dict(line.split("=", 1) for line in lines if "=" in line)
    interfaces = planet.get("instance", name)["status"]["networkInterfaces"]
    first, six, second = (each["address"] for nic in interfaces for each in nic["addresses"])
    assert said["name"] == name
    assert said["user"] == "ada of ada sudo"
    assert said["key"] == "me@example.com"
    assert (said["bootcmd"], said["written"], said["files"]) == ("ran", "as written 640", "world")
    assert said["data"] == "ext4 rw"
    assert said["disks"].split() == ["datumcloud-data", "datumcloud-persistent-disk-0", "datumcloud-settings"]
    assert said["root"] == "/dev/vda"
    assert (said["eth0"], said["eth1"]) == (first, second)
    assert said["six"] == f"{six.partition('/')[0]}/128"
    assert said["resolves"] == "kubernetes.default.svc.cluster.local"
    assert said["failed"] == ""
