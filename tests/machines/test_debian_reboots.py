"""A Debian with a kernel of its own installs the packages, runs their units under its systemd, and reboots.

After the reboot nothing was started by hand: server, etcd, containerd and agent are up, and the instance that ran
before runs again, with its name and uid.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.machines.debianguest import booted, make_disk
from tests.machines.packaged import package
from tests.machines.planet import instance
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.kubectl import kubectl_path
from tools import etcd_package

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=20, only=True), pytest.mark.timeout(3600)]
PATIENCE = 2400.0  # of each boot, where the processor is emulated on a busy machine
UNITS = ("etcd", "server", "containerd", "agent")

SCRIPT = r"""#!/bin/sh
exec >/dev/ttyS0 2>&1
export KUBECONFIG=/var/lib/tarmac/kubeconfig PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root
fail() {
  echo "trial: broken: $1"
  for unit in etcd server containerd agent; do journalctl -n 15 -o cat -u tarmac-$unit; done
  sync
  exit 1
}
identity() { kubectl get instances -o jsonpath='{.items[*].metadata.name}={.items[*].metadata.uid}'; }
running() { kubectl exec "$(kubectl get instances -o jsonpath='{.items[0].metadata.name}')" -- hostname; }
units() { for unit in etcd server containerd agent; do systemctl "$1" tarmac-$unit; done | tr '\n' ' '; }
wait_for() { # a command, for half an hour
  for attempt in $(seq 900); do "$@" >/dev/null 2>&1 && return; sleep 2; done
  "$@"
  fail "$*"
}
echo "trial: boot $(cat /proc/sys/kernel/random/boot_id)"
if [ ! -e /srv/trial/identity ]; then
  dpkg --install /srv/trial/tarmac.deb /srv/trial/etcd.deb || fail dpkg
  tarmac init --with-etcd --location DFW --timeout 30m || fail init
  kubectl create -f /srv/trial/workload.json || fail create
  wait_for running
  echo "trial: enabled $(units is-enabled)"
  echo "trial: before $(identity) $(running)"
  identity > /srv/trial/identity
  sync
  systemctl reboot
else
  wait_for kubectl get --raw /readyz
  wait_for running
  kubectl wait --for=condition=Ready workload/web --timeout=30m || fail ready
  echo "trial: active $(units is-active)"
  echo "trial: $(tarmac etcd members | tail -1)"
  echo "trial: failures $(systemctl --failed --no-legend --plain | awk '{print $1}' | tr '\n' ' ')."
  echo "trial: after $(identity) $(running)"
  sync
fi
"""


def test_instances_are_back_after_a_reboot(tmp_path: Path) -> None:
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("NOT RUN: there is no qemu-system-x86_64: run `make setup` as root")
    deb = package("12")
    etcd = etcd_package.build(tmp_path, Path(etcd_binary(ETCDS[-1])), fast=True)
    files = {
        "srv/trial/tarmac.deb": deb,
        "srv/trial/etcd.deb": etcd,
        "srv/trial/workload.json": json.dumps(instance("web", ["DFW"])).encode(),
        "usr/local/bin/kubectl": Path(kubectl_path()),
    }
    disk = make_disk(tmp_path, SCRIPT, files)
    try:
        with booted(tmp_path, disk) as guest:
            guest.until_said("trial: before ", PATIENCE)
            guest.until_said("trial: after ", PATIENCE)
            reported = re.findall(r"trial: (\w+) (.*?)\r?$", guest.said, re.MULTILINE)
    finally:
        disk.unlink()
    found: dict[str, list[str]] = {}
    for word, text in reported:
        found.setdefault(word, []).append(text.strip())
    print("\n".join(f"{word}: {text}" for word, text in reported))
    assert len(set(found["boot"])) == 2, "two boots of the kernel"
    assert found["enabled"] == [" ".join(["enabled"] * len(UNITS))]
    assert found["active"] == [" ".join(["active"] * len(UNITS))]
    assert found["failures"] == ["."], "units that failed"
    assert found["before"] == found["after"], "the same instance, with its uid"
    assert found["before"][0].startswith("web-dfw-")
