"""The package `tarmac-machines` on fresh roots of Debian 12 and 13: a node with it offers virtual machines.

A node without it says so in its condition MachinesReady.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.machines.boxes import until
from tests.machines.packaged import both_packages, package
from tests.machines.sites import SiteBox, sites
from tools.cache import ROOT
from tools.debian_roots import FOR_MACHINES, RELEASES, ensure

pytestmark = [pytest.mark.root, pytest.mark.timeout(900), pytest.mark.soak(minutes=3, only=True)]
_EXAMPLE = ROOT / "examples" / "vm.yaml"
_PID_FILE = "/run/tarmac/agent/vm/vm-1/0/pid"
# A process with QEMU's name, and the pid file that a machine has.
_MACHINE = f"""
mkdir -p {Path(_PID_FILE).parent}
cp /bin/sleep /tmp/qemu-system-x86_64
echo $$ > {_PID_FILE}
exec /tmp/qemu-system-x86_64 600
"""
_ACCELERATOR = (
    "get",
    "nodes",
    "-o",
    r"jsonpath={.items[*].metadata.labels.compute\.datumapis\.com/machine-accelerator}",
)
_READY = '{.items[*].status.conditions[?(@.type=="MachinesReady")]'
_CONDITION = ("get", "nodes", "-o", f"jsonpath={_READY}.status}} {_READY}.reason}} {_READY}.message}}")
_TRIAL_SECONDS = 120.0


def earlier(deb: Path, folder: Path) -> Path:
    """Return the package as it was before machines had their own: an earlier version without the recommendation."""
    tree, made = folder / "earlier", folder / "earlier.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", str(deb), str(tree)], check=True)
    control = tree / "DEBIAN" / "control"
    text = (
        control.read_text().replace("Version: ", "Version: 0.0.1+before").replace("Recommends: tarmac-machines\n", "")
    )
    control.write_text(text)
    words = ["dpkg-deb", "-Zzstd", "-z1", "--build", str(tree), str(made)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return made


@pytest.mark.parametrize("debian", RELEASES)
def test_a_node_upgraded_from_the_single_package_offers_machines_once_both_are_installed(
    tmp_path: Path, debian: str
) -> None:
    deb, machines = both_packages(debian)
    with sites(tmp_path / "machines", dallas=ensure(debian, FOR_MACHINES)) as (box,):
        box.install(earlier(deb, tmp_path))
        box.install(deb)
        box.install(machines)
        become_a_node(box)
        until(lambda: box.kubectl(*_ACCELERATOR) in ("kvm", "tcg"), _TRIAL_SECONDS)
        until(lambda: box.kubectl(*_CONDITION).startswith("True MachinesRun virtual machines run "), _TRIAL_SECONDS)


def test_a_node_from_the_first_package_alone_names_the_second_in_its_condition(tmp_path: Path) -> None:
    with sites(tmp_path / "machines", dallas=ensure("12")) as (box,):
        box.install(package())
        become_a_node(box)
        until(lambda: box.kubectl(*_CONDITION).startswith("False MachinesNotInstalled no qemu-system"), _TRIAL_SECONDS)
        assert "run `apt install tarmac-machines`" in box.kubectl(*_CONDITION)


def test_a_machine_boots_on_a_node_from_both_packages_which_then_stay(tmp_path: Path) -> None:
    deb, machines = both_packages("13")
    with sites(tmp_path / "machines", dallas=ensure("13", FOR_MACHINES)) as (box,):
        box.install(deb)
        box.install(machines)
        become_a_node(box)
        spec = {"spec": json.loads(box.path("/opt/tarmac/parts/machine-images/tiny.json").read_text())}
        box.kubectl("patch", "machineimage", "tarmac-tiny", "--type", "merge", "-p", json.dumps(spec))
        box.kubectl("create", "-f", "-", stdin=_EXAMPLE.read_text().replace('["DFW", "SEA"]', '["DFW"]'))
        until(lambda: "Running" in box.kubectl("get", "instances"), _TRIAL_SECONDS)
        refused = remove(box)
        assert (refused.returncode, "virtual machines still run here" in refused.stderr) == (1, True), refused


def become_a_node(box: SiteBox) -> None:
    init = ("init", "--location", "dfw", "--listen", f"{box.address}:6443", "--foreground")
    box.start(*init).until_said("join another machine", _TRIAL_SECONDS)


def test_the_package_for_machines_is_not_removed_while_machines_run(tmp_path: Path) -> None:
    deb, machines = both_packages()
    with sites(tmp_path / "machines", dallas=ensure("12", FOR_MACHINES)) as (box,):
        box.install(deb)
        box.install(machines)
        running = subprocess.Popen(box.command("sh", "-c", _MACHINE))
        try:
            until(lambda: any("qemu-system-x86_64 600" in each for each in box.processes()))
            refused = remove(box)
            assert (refused.returncode, "virtual machines still run here" in refused.stderr) == (1, True), refused
            assert box.path("/opt/tarmac/parts/machine-images/vmlinuz").exists()
        finally:
            for pid in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
                os.kill(int(pid), 9)
            running.wait(20)
        done = remove(box)
        assert done.returncode == 0, done.stderr
        assert not box.path("/opt/tarmac/parts/machine-images").exists()
        assert box.path("/opt/tarmac/parts/bin/runc").exists(), "the first package stays"


def remove(box: SiteBox) -> subprocess.CompletedProcess[str]:
    words = box.command("dpkg", "--remove", "tarmac-machines")
    return subprocess.run(words, capture_output=True, text=True, timeout=200, env=box.environment())
