"""The pod loop on a real containerd, with real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.agent.pods.machine import condition, container_status
from tests.agent.pods.realmachine import RealMachine, pod, real_machine
from tests.support.containerd import BUSYBOX, ContainerdNode

pytestmark = [pytest.mark.root]


@pytest.fixture
async def machine(containerd_node: ContainerdNode, tmp_path: Path) -> AsyncGenerator[RealMachine]:
    async with real_machine(containerd_node, tmp_path) as made:
        yield made


async def test_a_pod_runs_is_adopted_and_ends(machine: RealMachine) -> None:
    init = {"name": "first", "image": BUSYBOX, "command": ["true"]}
    await machine.pods.create(pod("web", initContainers=[init], hostname="hugo"))
    status = await machine.phase("Running", "web")
    main = container_status(status)
    assert main["containerID"].startswith("containerd://")
    assert main["imageID"].startswith("registry.local/") or main["imageID"].startswith("sha256:")
    assert len(status["podIPs"]) == 2
    found = machine.manager.find("default", "web")
    assert found is not None
    identity = machine.manager.container_id(found, "main")
    assert identity is not None
    said = await machine.runtime.exec(identity, ["cat", "/etc/hosts", "/etc/hostname"], 5)
    assert f"{status['podIP']}\thugo" in said.stdout.decode()
    await machine.kill()
    await machine.start()

    async def known() -> bool:
        again = machine.manager.find("default", "web")
        return again is not None and machine.manager.container_id(again, "main") == identity

    await machine.until(known)
    assert (await machine.status("web"))["containerStatuses"][0]["restartCount"] == 0
    await machine.pods.delete("web", "default")

    async def gone() -> bool:
        return not await machine.runtime.sandboxes()

    await machine.until(gone)
    assert not list((machine.root / "pods").iterdir())


async def test_a_crash_is_told_with_its_code_and_last_words(machine: RealMachine) -> None:
    await machine.pods.create(pod("crash", "echo bye > /dev/termination-log; exit 3"))

    async def backing_off() -> bool:
        state = container_status(await machine.status("crash")).get("state") or {}
        return state.get("waiting", {}).get("reason") == "CrashLoopBackOff"

    await machine.until(backing_off)
    last = container_status(await machine.status("crash"))["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"], last["message"]) == (3, "Error", "bye\n")
    await machine.pods.create(pod("once", "exit 0", restartPolicy="Never"))
    await machine.phase("Succeeded", "once")
    await machine.pods.create(pod("absent", container={"command": ["/no/such/thing"]}, restartPolicy="Never"))
    status = await machine.phase("Failed", "absent")
    assert container_status(status)["state"]["terminated"]["reason"] == "StartError"


async def test_probes_reach_a_real_server(machine: RealMachine) -> None:
    serve = "mkdir /www; echo ok > /www/index.html; httpd -f -p 8080 -h /www"
    probes = {
        "startupProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 20},
        "readinessProbe": {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1},
        "livenessProbe": {"exec": {"command": ["test", "!", "-e", "/dead"]}, "periodSeconds": 1, "failureThreshold": 1},
        "ports": [{"name": "web", "containerPort": 8080}],
    }
    await machine.pods.create(pod("served", serve, container=probes))

    async def ready() -> bool:
        return condition(await machine.status("served"), "Ready").get("status") == "True"

    await machine.until(ready)
    found = machine.manager.find("default", "served")
    assert found is not None
    identity = machine.manager.container_id(found, "main")
    assert identity is not None
    await machine.runtime.exec(identity, ["touch", "/dead"], 5)

    async def restarted() -> bool:
        return container_status(await machine.status("served"))["restartCount"] == 1

    await machine.until(restarted)
    await machine.until(ready)


async def test_memory_that_runs_out_and_grace_that_ends(machine: RealMachine) -> None:
    greedy = "tail -c 64M /dev/zero | tail -c 64M > /dev/null"
    limits = {"resources": {"limits": {"memory": "16Mi"}}}
    await machine.pods.create(pod("greedy", f"exec sh -c '{greedy}'", container=limits, restartPolicy="Never"))
    await machine.pods.create(pod("deaf", "trap '' TERM; while :; do sleep 1; done", terminationGracePeriodSeconds=2))
    status = await machine.phase("Failed", "greedy")
    assert container_status(status)["state"]["terminated"]["exitCode"] != 0
    await machine.phase("Running", "deaf")
    await machine.pods.delete("deaf", "default")

    async def gone() -> bool:
        return "deaf" not in [each["metadata"]["name"] for each in (await machine.pods.list("default")).items]

    await machine.until(gone, seconds=10)


async def test_a_sandbox_with_its_own_kernel_that_dies_is_made_again(machine: RealMachine) -> None:
    await machine.pods.create(pod("own", runtimeClassName="gvisor"))
    await machine.phase("Running", "own")
    found = machine.manager.find("default", "own")
    assert found is not None
    identity = machine.manager.container_id(found, "main")
    sandbox = machine.manager.sandbox_id(found)
    assert identity is not None
    assert sandbox is not None
    said = await machine.runtime.exec(identity, ["uname", "-r"], 10)
    assert b"gvisor" in said.stdout
    for process in kernels_of(sandbox):
        os.kill(process, signal.SIGKILL)

    async def replaced() -> bool:
        main = container_status(await machine.status("own"))
        return main["restartCount"] == 1 and "running" in main["state"]

    await machine.until(replaced)
    assert machine.manager.sandbox_id(found) not in (None, sandbox)
    main = container_status(await machine.status("own"))
    assert main["lastState"]["terminated"]["exitCode"] != 0


def kernels_of(sandbox: str) -> list[int]:
    """Return the processes that are the kernel of this sandbox."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if sandbox.encode() in words and b"boot" in words:
            found.append(int(each.parent.name))
    assert found, "the kernel runs as a process"
    return found
