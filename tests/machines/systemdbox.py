"""A machine with a real systemd as its first process, which runs the package's own units.

The system is the one of the tests, with this machine's files laid over it; the checkout stands in for the package. The
machine has cgroups of its own, below one of the host, as containers have.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.datapath.lab import Lab
from tests.machines.boxes import Box
from tools import node_parts
from tools.cache import ROOT
from tools.package import UNITS

SYSTEMD = Path("/lib/systemd/systemd")
_CHECKOUT = Path("/opt/checkout")  # not below /home or /root, which units may not see
_TARMAC = """#!/bin/sh
export PYTHONPATH={paths} TARMAC_NODE_PARTS={parts} PYTHONDONTWRITEBYTECODE=1
exec {python} -m tarmac.apps.main "$@"
"""
_CGROUPS = """
set -e
# Its own cgroup in each hierarchy, whose root it then takes for the root of all.
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
  for c in cpu cpuset io memory pids; do echo "+$c" > /sys/fs/cgroup/cgroup.subtree_control || true; done
  mkdir -p "/sys/fs/cgroup$2"
  echo $$ > "/sys/fs/cgroup$2/cgroup.procs"
else
  for h in /sys/fs/cgroup/*/; do
    mkdir -p "$h$2"
    for f in cpuset.cpus cpuset.mems; do [ ! -e "$h$f" ] || cat "$h$f" > "$h$2/$f"; done
    echo $$ > "$h$2/cgroup.procs"
  done
fi
exec unshare --cgroup --ipc sh "$1/boot" "$@"
"""
_BOOT = """
set -e
mount --make-rshared /
for d in etc var usr opt root; do
  mkdir -p "$1/$d" "$1/$d.work"
  mount -t overlay overlay -o "lowerdir=/$d,upperdir=$1/$d,workdir=$1/$d.work" "/$d"
done
mkdir -p /var/lib/tarmac "$1/data" "$5"
mount --bind "$1/data" /var/lib/tarmac
mount --bind "$4" "$5"
cp "$1/tarmac" /usr/bin/tarmac
hierarchies=$(ls /sys/fs/cgroup)
unified=$([ -e /sys/fs/cgroup/cgroup.procs ] && echo 1 || echo 0)
mount -t sysfs sysfs /sys
if [ $unified = 1 ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
  mount -t tmpfs tmpfs /sys/fs/cgroup
  for h in $hierarchies; do
    mkdir "/sys/fs/cgroup/$h"
    if [ "$h" = systemd ]; then o=none,name=systemd; else o=$h; fi
    mount -t cgroup -o "$o" cgroup "/sys/fs/cgroup/$h" || rmdir "/sys/fs/cgroup/$h"
  done
fi
umount --lazy /run/* 2>/dev/null || true # of the host's nodes
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
# Nothing is started but what the tests start: no service of the host's, no hardware.
rm -rf /etc/systemd/system/*.wants /lib/systemd/system/multi-user.target.wants
ln -sf /lib/systemd/system/multi-user.target /etc/systemd/system/default.target
for unit in udevd udev-trigger resolved networkd logind timesyncd sysctl modules-load; do
  ln -sf /dev/null "/etc/systemd/system/systemd-$unit.service"
done
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
hostname "$3"
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --show-status=0 \
  --log-target=console "systemd.unified_cgroup_hierarchy=$unified"
"""


class SystemdBox(Box):
    """One such machine. `command` and `run` act as a logged-in user."""

    program = ("/usr/bin/tarmac",)

    def boot_command(self) -> list[str]:
        """Start systemd, after mounting all files."""
        libraries = _CHECKOUT / Path(sysconfig.get_paths()["purelib"]).relative_to(ROOT)
        launcher = _TARMAC.format(
            paths=f"{_CHECKOUT / 'src'}:{libraries}", parts=node_parts.ensure(), python=Path(sys.executable).resolve()
        )
        (self._folder / "tarmac").write_text(launcher)
        (self._folder / "tarmac").chmod(0o755)
        (self._folder / "boot").write_text(_BOOT)
        places = (str(self._folder), self.cgroup, self.name, str(ROOT), str(_CHECKOUT))
        return ["sh", "-c", _CGROUPS, "sh", *places]

    def is_up(self, pid: int) -> bool:
        """Return true if systemd has started all its units."""
        self.pid = pid
        asked = self.command("systemctl", "is-system-running")
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip() in ("running", "degraded")

    def command(self, *words: str) -> list[str]:
        """Run in the machine's cgroups, too."""
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup", *words]

    def environment(self) -> dict[str, str]:
        """Return the environment of a login."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8"}

    def prepare(self) -> None:
        """Install the units of the package."""
        for unit in UNITS:
            self.add_unit(unit, (ROOT / "packaging" / unit).read_text())

    def add_unit(self, name: str, text: str) -> None:
        """Install a unit."""
        self.path(f"/usr/lib/systemd/system/{name}").write_text(text)
        self.systemctl("daemon-reload")

    def systemctl(self, *words: str) -> str:
        """Run systemctl; return its output. A failure fails the test."""
        done = subprocess.run(self.command("systemctl", *words), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}{self.journal()}"
        return done.stdout.strip()

    def journal(self) -> str:
        """Return the last log lines of the units."""
        words = self.command("journalctl", "--no-pager", "--lines=60", "--unit=tarmac-*", "--unit=probe-*")
        return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


@contextmanager
def systemd_box(folder: Path) -> Generator[SystemdBox]:
    """A machine on a wire of its own; always removed afterwards."""
    lab, made = Lab(), None
    try:
        made = SystemdBox(folder, lab, 1, "box")
        yield made
    finally:
        if made is not None:
            made.close()
        lab.close()
