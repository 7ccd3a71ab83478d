"""`apt install` of the package on fresh roots of Debian 12 and 13, from the file and without a network.

Ubuntu 24.04 has no root here, since no registry of the build has its packages: `make gpu-trial` installs `noble` there.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.machines.boxes import until
from tests.machines.packaged import package
from tests.machines.planet import instance
from tests.machines.sites import SiteBox, sites
from tools.debian_roots import RELEASES, ensure

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]
REFUSAL = (
    "tarmac: this package is for bookworm with Python 3.11, and this machine has 3.13; "
    "install the package of its own system"
)


@pytest.mark.parametrize("debian", RELEASES)
def test_apt_installs_the_package_and_a_workload_becomes_ready(tmp_path: Path, debian: str) -> None:
    deb = package(debian)
    with sites(tmp_path, dallas=ensure(debian)) as (box,):
        done = install(box, deb, "apt-get", "install", "--yes", "--no-install-recommends")
        assert done.returncode == 0, done.stdout + done.stderr
        init = ("init", "--location", "dfw", "--listen", f"{box.address}:6443", "--foreground")
        box.start(*init).until_said("join another machine", 150)
        assert "created" in box.kubectl("create", "-f", "-", stdin=json.dumps(instance("first", ["DFW"])))
        ready = ("wait", "--for=condition=Ready", "workload/first", "--timeout=10s")
        until(lambda: "condition met" in box.kubectl(*ready), 120)
        assert "Running" in box.kubectl("get", "instances")


def test_the_package_of_another_debian_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    deb = package("12")
    with sites(tmp_path, dallas=ensure("13")) as (box,):
        done = install(box, deb, "dpkg", "--install")
        assert done.returncode != 0
        assert REFUSAL in done.stderr
        done = install(box, deb, "apt-get", "install", "--yes", "--no-install-recommends")
        assert done.returncode != 0
        assert "Depends: python3 (< 3.12)" in done.stdout + done.stderr
        assert not box.path("/opt/tarmac").exists()
        assert not box.path("/usr/bin/tarmac").exists()


def install(box: SiteBox, deb: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a copy of the package, on the machine."""
    copy = "/var/cache/tarmac.deb"
    box.path(copy).write_bytes(deb.read_bytes())
    environment = {**box.environment(), "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(box.command(*command, copy), capture_output=True, text=True, timeout=300, env=environment)
