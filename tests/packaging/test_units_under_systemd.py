"""The package's units under a real systemd: all features work in their sandboxes, and few attacks do."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacking import TWICE
from tests.machines.boxes import until
from tests.machines.systemdbox import SYSTEMD, SystemdBox, systemd_box
from tools.cache import ROOT

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not SYSTEMD.exists(), reason="NOT RUN: there is no systemd here"),
]
PACKAGING = ROOT / "packaging"
PROBE = Path(__file__).with_name("probe.py")
NEEDED = {"write its data", "listen", "listen on a socket"}
# The agent's work: mounts, namespaces, networks, files of pods, and machines with translated code.
OF_AGENTS = NEEDED | {
    "write /usr", "write /etc", "write /var", "write /run", "speak to systemd", "read /root",
    "read another user's file", "read a disk", "read the environment of process 1", "change a kernel parameter",
    "mount", "make a user namespace", "make a network namespace", "become another user", "make a setuid program",
    "map writable code", "capture packets", "speak netlink",
}  # fmt: skip
PODS = """
apiVersion: v1
kind: Secret
metadata: {name: word}
stringData: {word: xyzzy}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], storageClassName: tarmac-local, resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: own-kernel}
spec:
  containers: [{name: main, image: "registry.local/tarmac/web:1", volumeMounts: [{name: word, mountPath: /word}]}]
  volumes: [{name: word, secret: {secretName: word}}]
---
apiVersion: v1
kind: Pod
metadata: {name: with-disk}
spec:
  runtimeClassName: runc
  containers: [{name: main, image: "registry.local/tarmac/web:1", volumeMounts: [{name: disk, mountPath: /disk}]}]
  volumes: [{name: disk, persistentVolumeClaim: {claimName: disk}}]
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdBox]:
    with systemd_box(tmp_path_factory.mktemp("systemd")) as made:
        yield made


# Directives of a sandbox; a unit without them keeps only the places for its files.
SANDBOX = (
    "Protect|Temporary|Bind|Inaccessible|Private|Proc|Capability|NoNew|Restrict|Lock|MemoryDeny|SystemCall|Device|Read"
)


def probed(box: SystemdBox, unit: str, *, sandboxed: bool = True) -> set[str]:
    """Return the attempts that succeed in the sandbox of a unit."""
    text = (PACKAGING / f"tarmac-{unit}.service").read_text()
    if not sandboxed:
        text = re.sub(rf"^({SANDBOX})\w*=.*\n", "", text, flags=re.MULTILINE)
    text = re.sub("^(Restart|Wants|After)=.*\n", "", text, flags=re.MULTILINE)
    text = re.sub("(?<=^ExecStart=).*$", "/usr/bin/python3 /usr/bin/probe.py\nType=oneshot", text, flags=re.MULTILINE)
    box.path("/usr/bin/probe.py").write_text(PROBE.read_text())
    prepared = "touch ~root/secret /var/tmp/private; chmod 600 /var/tmp/private; chown 1234 /var/tmp/private"
    subprocess.run(box.command("sh", "-c", prepared), check=True)
    box.add_unit(f"probe-{unit}.service", text)
    box.systemctl("start", f"probe-{unit}.service")
    found = json.loads(box.path("/var/lib/tarmac/probe.json").read_text())
    return {name for name, succeeded in found.items() if succeeded}


@TWICE
def test_a_server_that_is_taken_over_reaches_nothing_but_its_data_and_the_network(
    box: SystemdBox, defended: bool
) -> None:
    reached = probed(box, "server", sandboxed=defended)
    assert reached >= NEEDED
    assert (reached == NEEDED) is defended
    assert ("write /etc" not in reached) is defended


def test_an_agent_that_is_taken_over_does_not_reach_the_kernel_itself(box: SystemdBox) -> None:
    assert probed(box, "agent") <= OF_AGENTS


def test_server_agent_and_pods_work_in_their_sandboxes(box: SystemdBox) -> None:
    done = box.run("init", "--location", "dfw", "--listen", f"{box.address}:6443", "--timeout", "200s", timeout=500)
    assert done.returncode == 0, done.stderr + box.journal()
    until(lambda: box.kubectl("get", "serviceaccount", "default", "-o", "name") == "serviceaccount/default\n")
    assert "pod/with-disk created" in box.kubectl("apply", "-f", "-", stdin=PODS)
    until(lambda: running(box) == 2, 200)
    assert box.kubectl("exec", "own-kernel", "--", "cat", "/word/word") == "xyzzy"
    box.kubectl("exec", "with-disk", "--", "sh", "-c", "echo kept > /disk/file")
    box.systemctl("restart", "tarmac-server", "tarmac-agent")
    until(lambda: box.kubectl("get", "--raw", "/readyz") == "ok", 120)
    until(lambda: box.kubectl("exec", "with-disk", "--", "cat", "/disk/file") == "kept\n", 120)
    assert "NoNewPrivs:\t0" in box.kubectl("exec", "with-disk", "--", "cat", "/proc/self/status"), "sudo works in pods"
    states = box.systemctl("show", "--property=ActiveState,NRestarts", "tarmac-server", "tarmac-agent")
    assert states.split() == ["NRestarts=0", "ActiveState=active"] * 2


def running(box: SystemdBox) -> int:
    return box.kubectl("get", "pods", "--no-headers").count(" Running ")
