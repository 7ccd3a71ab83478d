"""A virtual machine on a real node: boots from an image of the catalogue, serves, and reports how it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tarmac.apps.cities.removing import underlay_of
from tarmac.runtimes.parts import PartMissing, find_machine_parts
from tests.dashboard.browser import browser_page, dashboard
from tests.node.planet import Planet, busybox, eventually, machine_processes, pod
from tests.support.exposition import series

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

BOOT_SECONDS = 120  # without KVM, on a busy machine


def workload() -> dict[str, Any]:
    """A machine in DFW with two interfaces on one Network, a data disk, and a volume with files."""
    disks = {"boot": {"image": {"name": "tarmac/tiny"}}, "logs": {"filesystem": {"type": "ext4"}}}
    sizes = {"boot": {}, "logs": {"resources": {"requests": {"storage": "10Gi"}}}}
    volumes: list[dict[str, Any]] = [
        {"name": name, "disk": {"template": {"spec": {"populator": populator, **sizes[name]}}}}
        for name, populator in disks.items()
    ]
    attached = [
        {"name": "boot"},
        {"name": "logs", "mountPath": "/var/log/app"},
        {"name": "settings", "mountPath": "/etc/settings"},
    ]
    machine = {"volumeAttachments": attached, "ports": [{"name": "ssh", "port": 22}]}
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "1", "memory": "256Mi"}},
        "virtualMachine": machine,
    }
    spec = {
        "runtime": runtime,
        "networkInterfaces": [{"network": {"name": "default"}}] * 2,
        "volumes": [*volumes, {"name": "settings", "configMap": {"name": "settings"}}],
    }
    placement = {"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "vm"},
        "spec": {"template": {"spec": spec}, "placements": [placement]},
    }


class Guest:
    """The one machine of this file."""

    def __init__(self, planet: Planet) -> None:
        self.planet = planet
        eventually(lambda: bool(self._pods()), 30, "its Pod")
        self.name: str = self._pods()[0]["metadata"]["name"]

    def _pods(self) -> list[dict[str, Any]]:
        return [each for each in self.planet.get("pods")["items"] if each["metadata"]["name"].startswith("vm-dfw-")]

    @property
    def pod(self) -> dict[str, Any]:
        return self.planet.get("pod", self.name)

    @property
    def container(self) -> dict[str, Any]:
        return next(iter(self.pod["status"].get("containerStatuses") or ()), {})

    def booted(self) -> None:
        self.planet.wait(f"pod/{self.name}", "condition=Ready", BOOT_SECONDS)

    def types(self, line: str) -> None:
        """Type a line at its console; repeat while the node is away."""
        eventually(lambda: self._typed(line), 60, f"an echo of {line!r}")

    def _typed(self, line: str) -> bool:
        attached = self.planet.kubectl.start("attach", "-i", self.name)
        assert attached.stdin is not None
        assert attached.stdout is not None
        try:
            said = iter(attached.stdout.readline, "")  # it ends when the console is refused
            if not any("you have the keyboard" in each for each in said):
                return False
            attached.stdin.write(f"{line}\r")
            attached.stdin.flush()
            return any(line in each for each in said)
        finally:
            attached.kill()
            attached.communicate()

    def logs(self, *flags: str) -> str:
        return self.planet.kubectl("logs", *flags, self.name)


def processes(planet: Planet) -> list[int]:
    """Return the QEMU processes of this machine."""
    return [pid for pid, name in machine_processes(planet.data_dir).items() if name.startswith("vm-dfw-")]


def ready_to_boot(planet: Planet, node: str = "dfw-0") -> None:
    """Wait until a node has tested that machines run."""
    try:
        find_machine_parts()
    except PartMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")

    def offered() -> bool:
        handlers = planet.get("node", node)["status"].get("runtimeHandlers") or ()
        return any(each["name"] == "vm" for each in handlers)

    eventually(offered, 100, "the handler vm")


@pytest.fixture(scope="module")
def guest(planet: Planet) -> Iterator[Guest]:
    ready_to_boot(planet)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"hello": "world"}}
    planet.apply(settings, workload())
    guest = Guest(planet)
    guest.booted()
    yield guest
    planet.kubectl.run("delete", "workload", "vm", "--wait=false")
    eventually(lambda: "deletionTimestamp" in guest.pod["metadata"], 30, "its deletion")
    planet.kubectl.run("delete", "pod", guest.name, "--grace-period=1", timeout=60)  # it boots and ignores the button
    eventually(lambda: not processes(planet), 60, "the end of its process")
    folders = underlay_of(planet.data_dir).run.glob
    eventually(lambda: not list(folders("dfw/agent/vm/vm-*")), 30, "its folder to go")
    planet.kubectl.run("delete", "configmap", "settings")


def test_a_machine_boots_and_is_ready_when_it_serves(guest: Guest) -> None:
    instance = guest.planet.get("instance", guest.name)
    assert instance["status"]["networkInterfaces"][0]["assignments"]["networkIP"] == guest.pod["status"]["podIP"]
    assert "the kernel runs" in guest.logs()
    assert guest.container["image"] == "tarmac/tiny"
    label = guest.planet.get("node", "dfw-0")["metadata"]["labels"]["compute.datumapis.com/machine-accelerator"]
    assert label in ("kvm", "tcg")
    conditions = guest.planet.get("node", "dfw-0")["status"]["conditions"]
    [ready] = [each for each in conditions if each["type"] == "MachinesReady"]
    assert (ready["status"], ready["reason"], f"({label})" in ready["message"]) == ("True", "MachinesRun", True), ready
    metrics = series(guest.planet.kubectl("get", "--raw", "/api/v1/nodes/dfw-0/proxy/metrics"))
    for phase in ("process", "ready"):  # earlier tests may have started machines on the node
        assert metrics["tarmac_machine_start_seconds_count", frozenset({("phase", phase)})] >= 1


def test_a_container_of_its_network_reaches_each_of_its_interfaces(guest: Guest) -> None:
    planet = guest.planet
    interfaces = planet.get("instance", guest.name)["status"]["networkInterfaces"]
    addresses = [each["assignments"]["networkIP"] for each in interfaces]
    assert len(set(addresses)) == 2
    planet.apply(pod("caller", busybox()))
    planet.wait("pod/caller", "condition=Ready")
    for address in addresses:
        assert "SSH-2.0-" in planet.exec("caller", "sh", "-c", f"nc -w 5 {address} 22 < /dev/null | head -c 8; echo")
    planet.remove("caller")


def test_the_dashboard_has_its_console_its_screen_and_what_was_recorded(guest: Guest) -> None:
    with dashboard(guest.planet.process.kubeconfig) as address, browser_page() as page:
        page.goto(address)
        expect(page.get_by_role("heading", name="Planet")).to_be_visible()
        page.evaluate(f"location.hash = '#/instances/default/{guest.name}/terminal'")
        expect(page.get_by_text("● Recorded. You have the keyboard.")).to_be_visible()
        page.keyboard.type("typed-in-the-page\n")
        expect(page.locator(".console")).to_contain_text("typed-in-the-page")
        page.evaluate(f"location.hash = '#/instances/default/{guest.name}/screen'")
        expect(page.get_by_text("Connected. One client at a time has the keyboard")).to_be_visible()
        expect(page.locator(".screen canvas")).to_be_visible()
        page.evaluate(f"location.hash = '#/instances/default/{guest.name}/recordings'")
        page.get_by_role("row", name=re.compile(" console ")).first.get_by_role("link").click()
        page.get_by_label("Moment").evaluate(
            "(made) => { made.value = made.max; made.dispatchEvent(new Event('input')); }"
        )
        expect(page.locator(".replay")).to_contain_text("typed-in-the-page")


def test_discarded_and_zeroed_blocks_are_freed_on_the_host(guest: Guest) -> None:
    volume = guest.planet.get("pvc", f"{guest.name}-logs")["spec"]["volumeName"]
    disk = guest.planet.data_dir / f"cities/dfw/agent/disks/{volume}.img"

    def taken() -> int:
        return disk.stat().st_blocks * 512 >> 20

    before = taken()
    # Short lines: a terminal would wrap the echo of longer ones.
    guest.types("D=/var/log/app; mount -o remount,discard $D")
    guest.types("head -c 24m /dev/urandom >$D/big; sync")
    eventually(lambda: taken() >= before + 24, 60, "24 MiB on the host's disk")
    guest.types("rm $D/big; sync")
    eventually(lambda: taken() <= before + 4, 60, "them to be given back")
    guest.types("head -c 24m /dev/zero >$D/zeros; sync")
    guest.types("du -m $D/zeros")
    eventually(lambda: "\t/var/log/app/zeros" in guest.logs(), 60, "the guest to have written zeros")
    assert taken() <= before + 8


def test_the_end_of_the_agent_is_not_the_end_of_a_machine(guest: Guest) -> None:
    [before] = processes(guest.planet)
    root = f"{guest.planet.data_dir}/cities/dfw/agent"
    found = subprocess.run(["pgrep", "-f", f"agent.*--root-dir[= ]{root}"], capture_output=True, text=True)
    os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
    guest.types("cat /etc/settings/hello /proc/mounts")
    eventually(lambda: "world" in guest.logs(), 20, "the answer of the guest")
    assert "/var/log/app ext4" in guest.logs()
    assert processes(guest.planet) == [before]
    assert guest.container["restartCount"] == 0


def test_a_panic_is_told_as_one_and_the_machine_starts_again(guest: Guest) -> None:
    guest.types("echo c > /proc/sysrq-trigger")
    eventually(lambda: guest.container.get("restartCount") == 1, 30, "the restart")
    ended = guest.container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (1, "GuestPanicked")
    assert "Kernel panic - not syncing: sysrq triggered crash" in ended["message"]
    assert "Kernel panic" in guest.logs("--previous")


def test_no_command_runs_in_a_machine_and_the_answer_says_what_to_use(guest: Guest) -> None:
    assert "a virtual machine has no exec" in guest.planet.kubectl.fails("exec", guest.name, "--", "true")


def test_a_pod_of_the_class_that_is_no_machine_is_refused(planet: Planet) -> None:
    planet.apply(pod("fake", busybox(), runtimeClassName="vm", nodeName="dfw-0"))
    planet.wait("pod/fake", "jsonpath={.status.phase}=Failed")
    assert planet.get("pod", "fake")["status"]["reason"] == "NotAMachine"
    planet.remove("fake")
