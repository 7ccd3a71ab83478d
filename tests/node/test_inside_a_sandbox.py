"""Inside a sandbox: its own kernel, shared by its containers, with their limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.planet import Planet, busybox, eventually, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def sandbox(planet: Planet) -> Iterator[Planet]:
    """A pod of two containers under gVisor, in DFW."""
    serving = busybox("server", "echo hello > /tmp/index.html; exec httpd -f -p 127.0.0.1:8000 -h /tmp")
    planet.apply(
        pod(
            "two",
            serving,
            busybox("client"),
            runtimeClassName="gvisor",
            nodeSelector={"kubernetes.io/hostname": "dfw-0"},
        )
    )
    planet.wait("pod/two", "condition=Ready")
    yield planet
    planet.remove("two")


def test_the_kernel_is_not_the_hosts(sandbox: Planet) -> None:
    with open("/proc/sys/kernel/osrelease") as file:
        own = file.read().strip()
    inside = sandbox.exec("two", "uname", "-r", container="client").strip()
    assert inside.endswith("-gvisor")
    assert inside != own
    assert "Starting gVisor" in sandbox.exec("two", "dmesg", container="server")


def test_containers_share_the_kernel_the_interfaces_and_localhost(sandbox: Planet) -> None:
    assert sandbox.exec("two", "wget", "-qO-", "http://127.0.0.1:8000/", container="client") == "hello\n"
    listed = [sandbox.exec("two", "ip", "-o", "addr", container=name) for name in ("server", "client")]
    assert listed[0] == listed[1]
    assert " inet 10." in listed[0]
    assert " inet6 fd" in listed[0]


def test_a_memory_limit_of_the_sandbox_holds(planet: Planet) -> None:
    greedy = busybox("main", "tail /dev/zero", resources={"limits": {"memory": "64Mi"}})
    planet.apply(pod("greedy", greedy, runtimeClassName="gvisor", restartPolicy="Never"))
    try:
        eventually(lambda: planet.get("pod", "greedy")["status"]["phase"] == "Failed", 60, "the pod's end")
        [status] = planet.get("pod", "greedy")["status"]["containerStatuses"]
        assert status["state"]["terminated"]["reason"] == "OOMKilled"
    finally:
        planet.remove("greedy")
