"""The tests of version 2 on a kernel that has its controllers there: in Debian 12, in an emulated machine.

The machines of this project have their controllers on version 1. The emulation takes minutes, so `make soak` runs it.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.runtimes.parts import PartMissing, find_machine_parts

ROOT = Path(__file__).parents[3]
SUITES = ("test_real_version_2", "test_real_pods_version_2")
# packages of the tests for the guest's Python, whose version is that of this virtual environment
DISTRIBUTIONS = ("msgspec", "pytest", "pluggy", "iniconfig", "packaging", "pygments")
SOURCES = ("src", "tests/agent/cgroups", "tests/decide/cpus")
PACKAGES = ("tests", "tests/agent", "tests/decide")
FIRST = "#!/bin/sh\nmkdir -p /kit\nmount /dev/vdb /kit\nexec sh /kit/run.sh\n"
RUN = f"""exec > /dev/ttyS0 2>&1
cd /kit
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=src:packages python3 -m pytest -c /dev/null --noconftest --rootdir=. -rs -q \\
  --color=no -p no:cacheprovider --basetemp=/kit/tmp -W ignore::pytest.PytestUnknownMarkWarning \\
  {" ".join(f"tests/agent/cgroups/{each}.py" for each in SUITES)}
echo "the tests end with $?."
sync
poweroff -f
"""
COMMAND_LINE = (
    "console=ttyS0 quiet no_timer_check random.trust_cpu=on root=/dev/vda cloud-init=disabled "
    'systemd.run="/bin/sh /usr/bin/first.sh" systemd.run_success_action=poweroff'
)


def image(name: str) -> Path:
    try:
        found = find_machine_parts().images / name
    except PartMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    if not found.exists():
        pytest.skip(f"NOT RUN: no {name}; make machine-images makes it")
    return found


def run_tool(*words: str | Path) -> None:
    subprocess.run([str(each) for each in words], check=True, capture_output=True, timeout=120)


def root_disk(folder: Path) -> Path:
    """Debian's disk with one more script; without cloud-init, which takes a minute there."""
    disk, script = folder / "root", folder / "first.sh"
    script.write_text(FIRST)
    run_tool("qemu-img", "convert", "-O", "raw", image("debian-12.qcow2"), disk)
    run_tool("debugfs", "-w", disk, "-R", f"write {script} /usr/bin/first.sh")
    return disk


def suite_disk(folder: Path) -> Path:
    """Sources, tests, and the packages that they need."""
    tree, disk = folder / "tree", folder / "kit"
    unwanted = shutil.ignore_patterns("__pycache__")
    for each in SOURCES:
        shutil.copytree(ROOT / each, tree / each, ignore=unwanted)
    for each in PACKAGES:
        shutil.copy(ROOT / each / "__init__.py", tree / each)
    for name in DISTRIBUTIONS:
        for file in importlib.metadata.files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (tree / "packages" / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), tree / "packages" / file)
    (tree / "run.sh").write_text(RUN)
    run_tool("mkfs.ext4", "-q", "-F", "-d", tree, disk, "300M")
    return disk


@pytest.mark.root
@pytest.mark.soak(minutes=4, only=True)
@pytest.mark.timeout(1200)
def test_limits_processors_and_classes_are_enforced_by_a_kernel_with_version_2_alone(tmp_path: Path) -> None:
    if sys.version_info[:2] != (3, 11):
        pytest.skip("NOT RUN: the guest has Python 3.11, for which this environment has no packages")
    said, words = tmp_path / "said", ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "4"]
    words += ["-m", "2G", "-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot"]
    words += ["-serial", f"file:{said}", "-kernel", str(image("vmlinuz")), "-initrd", str(image("initrd"))]
    for disk in (root_disk(tmp_path), suite_disk(tmp_path)):
        words += ["-drive", f"file={disk},if=virtio,format=raw"]
    subprocess.run([*words, "-append", COMMAND_LINE], check=True, capture_output=True, timeout=900)
    output = said.read_text(errors="replace")
    assert "the tests end with 0." in output, output[-8000:]
    assert "NOT RUN: the controllers are not on a version 2 tree" not in output, output[-8000:]
    print(output[-3000:])
