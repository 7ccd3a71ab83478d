"""An old backup is restored under a real node: no running process ends, and the server learns of each again.

Changes of an hour have happened since the backup: an instance more, a new pod, and one that was replaced under its
name. Each is reported with its reason, and adopted as it runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tarmac.base.randomness import Randomness
from tarmac.runtimes.cri.criruntime import CriRuntime
from tests.apps.test_backups import tarmac
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess
from tests.upgrade.cities import location, workload

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

UNKNOWN, OTHER = "the restored store has no such pod", "the restored store has it under another uid"


class Site:
    """A server, its backup, and a node with pods."""

    def __init__(self, folder: Path, containerd: ContainerdNode) -> None:
        self.folder = folder
        self.server = TarmacProcess(folder / "data")
        self.name = f"node-{Randomness().suffix(6)}"
        self._containerd = containerd

    def start(self, stack: ExitStack) -> None:
        """Start the node, an instance and two pods on it."""
        stack.enter_context(self.server)
        self.agent = AgentProcess.for_server(self.folder / self.name, self.name, self._containerd, self.server)
        stack.push(self.agent)
        self.agent.start()
        stack.callback(self.remove_pods)
        self.kubectl("create", "-f", "-", stdin=json.dumps(location("DFW")))
        self.kubectl("label", "node", self.name, "topology.datum.net/location=dfw")
        self.create(workload(["DFW"]), self.pod("kept"), self.pod("again"))
        until(lambda: len(self.pods()) == 3, 120)

    @property
    def kubectl(self) -> Kubectl:
        """Run kubectl as the administrator."""
        return Kubectl(self.server.kubeconfig, self.folder)

    def create(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            self.kubectl("create", "-f", "-", stdin=json.dumps(each))

    def pod(self, name: str) -> dict[str, Any]:
        waits = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"]
        spec: dict[str, Any] = {"nodeName": self.name, "terminationGracePeriodSeconds": 1}
        spec["containers"] = [{"name": "main", "image": BUSYBOX, "command": waits}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def pods(self) -> dict[str, tuple[str, str, int]]:
        """Return uid, container and restarts of each ready pod."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                each["containerID"].rpartition("/")[2],
                each["restartCount"],
            )
            for pod in found
            for each in pod["status"].get("containerStatuses") or ()
            if each["ready"]
        }

    def an_hour(self) -> None:
        """Make the changes after the backup."""
        self.kubectl("delete", "pod", "again")
        self.create(self.pod("again"), self.pod("new"))
        self.scale()
        until(lambda: len(self.pods()) == 5, 120)

    def scale(self) -> None:
        placements = workload(["DFW"], replicas=2)["spec"]["placements"]
        self.kubectl("patch", "workload", "web", "--type=merge", "-p", json.dumps({"spec": {"placements": placements}}))

    async def running(self) -> set[str]:
        """Return the containers of this node in the runtime."""
        runtime = CriRuntime(self._containerd.endpoint)
        try:
            found = await runtime.containers()
        finally:
            await runtime.close()
        return {each.id for each in found if each.state == "running"}

    def restored(self, *words: str) -> str:
        done = tarmac("restored", *words, f"--kubeconfig={self.server.kubeconfig}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def remove_pods(self) -> None:
        """Remove all pods, so that the node leaves nothing, also after a failed test."""
        if not self.server.running():
            self.server.start()
        tarmac("restored", "remove", "--all", f"--kubeconfig={self.server.kubeconfig}")
        self.kubectl.run("delete", "workload", "web", "--wait=false")
        self.kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
        until(lambda: not self.agent.pods, 60)


@pytest.fixture
def site(containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, containerd_node)
    with ExitStack() as stack:
        made.start(stack)
        yield made


async def test_nothing_ends_every_difference_is_told_and_all_of_it_is_adopted_as_it_runs(site: Site) -> None:
    here, file = f"--data-dir={site.server.data_dir}", str(site.folder / "backup")
    made = await asyncio.to_thread(tarmac, "backup", "create", file, "--without-keys", here)
    assert made.returncode == 0, made.stderr
    await asyncio.to_thread(site.an_hour)
    before = site.pods()
    containers = {container for _, container, _ in before.values()}
    assert containers <= await site.running()
    site.server.stop()
    done = await asyncio.to_thread(tarmac, "restore", file, here, "--accept-loss")
    assert done.returncode == 0, done.stderr
    site.server.start()

    (second,) = before.keys() - {"kept", "again", "new"} - {name for name in before if name.endswith("-0")}
    wanted = {"again": OTHER, "new": UNKNOWN, second: UNKNOWN}
    conflicts = await asyncio.to_thread(_conflicts, site, len(wanted))
    assert conflicts.keys() == wanted.keys()
    for name, reason in wanted.items():
        assert conflicts[name].startswith(reason)
        told = await asyncio.to_thread(tarmac, "why", f"pod/{name}", f"--kubeconfig={site.server.kubeconfig}")
        assert "RestoredConflict" in told.stdout, told
    assert containers <= await site.running(), "a restore ends nothing"

    site.scale()  # first: an instance beyond its deployment's size is scaled down
    await asyncio.to_thread(site.restored, "adopt", "--all")
    await asyncio.to_thread(until, lambda: site.pods() == before, 120)
    assert containers <= await site.running()
    assert json.loads(await asyncio.to_thread(site.restored, "list", "-o", "json")) == {"conflicts": []}
    names = site.kubectl("get", "instances", "-o", "name").split()
    assert f"instance.compute.datumapis.com/{second}" in names


def _conflicts(site: Site, count: int) -> dict[str, str]:
    """Return the reason of each conflict by pod, once the node has reported all that it runs."""
    found: list[dict[str, str]] = []

    def told() -> bool:
        found[:] = json.loads(site.restored("list", "-o", "json"))["conflicts"]
        return len(found) >= count

    until(told, 90, 0.5)
    return {each["name"]: each["why"] for each in found}
