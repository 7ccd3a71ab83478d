"""A private containerd: configured, started in a namespace, adopted, and removed completely."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.runtimes import containerd
from tarmac.runtimes.containerd import ContainerdSettings, config_text, processes, runsc_text, sandboxes
from tarmac.runtimes.containerd.orphans import is_memory_backed, processes_naming, unmount_below
from tarmac.runtimes.interface import LinuxSecurity, RuntimeContainer, RuntimeUnreachable
from tarmac.runtimes.parts import NodeParts
from tests.runtimes.machine import RealMachine, Running
from tests.support.containerd import ContainerdNode

_CRI = "io.containerd.grpc.v1.cri"


def _settings(*, gvisor: bool = True) -> ContainerdSettings:
    place = Path("/p")
    parts = NodeParts(
        containerd=place / "containerd",
        ctr=place / "ctr",
        containerd_shim=place / "shim",
        runc=place / "runc",
        runsc=place / "runsc" if gvisor else None,
        runsc_shim=place / "runsc-shim" if gvisor else None,
        no_gvisor="" if gvisor else "not built",
        cni=place,
        images=(),
    )
    return ContainerdSettings(
        root=Path("/data/root"),
        run=Path("/data/run"),
        cni_bin=Path("/data/bin"),
        cni_conf=Path('/data/odd "name"'),
        certs=Path("/data/certs"),
        parts=parts,
    )


def test_the_configuration_keeps_state_apart_from_images() -> None:
    config = tomllib.loads(config_text(_settings(), restrict_oom_score=True))
    assert config["root"] == "/data/root/root"
    assert config["state"] == "/data/run/state"
    assert config["plugins"][_CRI]["cni"]["conf_dir"] == '/data/odd "name"'
    assert config["plugins"][_CRI]["restrict_oom_score_adj"] is True


def test_every_handler_has_folders_of_its_own() -> None:
    settings = _settings()
    runtimes = tomllib.loads(config_text(settings, restrict_oom_score=False))["plugins"][_CRI]["containerd"]["runtimes"]
    assert runtimes["runc"]["options"] == {"BinaryName": "/p/runc", "Root": "/data/run/runc"}
    assert runtimes["gvisor"]["options"]["ConfigPath"] == "/data/run/runsc.toml"
    assert tomllib.loads(runsc_text(settings))["root"] == "/data/run/runsc"


def test_sandboxes_can_have_nvidias_devices_where_the_driver_is() -> None:
    settings = replace(_settings(), nvidia=True)
    runtimes = tomllib.loads(config_text(settings, restrict_oom_score=False))["plugins"][_CRI]["containerd"]["runtimes"]
    assert runtimes["gvisor-nvidia"]["options"]["ConfigPath"] == "/data/run/runsc-gvisor-nvidia.toml"
    assert runtimes["gvisor-nvidia"]["runtime_type"] == runtimes["gvisor"]["runtime_type"]
    proxied = [tomllib.loads(runsc_text(settings, each))["runsc_config"].get("nvproxy") for each in sandboxes(settings)]
    assert proxied == [None, "true"]
    assert sandboxes(replace(_settings(gvisor=False), nvidia=True)) == {}


def test_without_gvisor_only_the_shared_kernel_is_configured() -> None:
    config = tomllib.loads(config_text(_settings(gvisor=False), restrict_oom_score=False))
    assert list(config["plugins"][_CRI]["containerd"]["runtimes"]) == ["runc"]


@pytest.mark.root
class TestRunning:
    """Tests with a real containerd."""

    async def test_its_state_never_reaches_a_disk(self, containerd_node: ContainerdNode) -> None:
        assert is_memory_backed(containerd_node.settings.run / "state")

    async def test_a_running_containerd_is_adopted(self, containerd_node: ContainerdNode) -> None:
        before = processes(containerd_node.settings)
        await containerd.start(containerd_node.settings)
        assert processes(containerd_node.settings) == before
        assert len(before) == 1

    async def test_containerd_is_detached_with_its_own_session(self, containerd_node: ContainerdNode) -> None:
        [pid] = processes(containerd_node.settings)
        assert os.getsid(pid) != os.getsid(0)
        assert f"PPid:\t{os.getpid()}\n" not in Path(f"/proc/{pid}/status").read_text()

    async def test_containers_go_on_when_it_is_killed_and_are_adopted(self, spare_node: ContainerdNode) -> None:
        machine = RealMachine(spare_node, "runc")
        counts = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"
        running = await machine.run(replace(machine.waits(), command=("sh", "-c", counts)))
        before = await running.now()
        await _kill(spare_node)
        with pytest.raises(RuntimeUnreachable):
            await running.now()
        await asyncio.sleep(0.5)
        await containerd.start(spare_node.settings)
        assert await _answer(running) == before
        numbers = [int(line.split()[-1]) for line in Path(before.log_path).read_text().splitlines()]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 10
        await machine.clean()

    async def test_an_end_while_it_was_down_is_known_as_unknown(self, spare_node: ContainerdNode) -> None:
        machine = RealMachine(spare_node, "runc")
        ends = ("sh", "-c", "sleep 0.8; exit 3")
        running = await machine.run(replace(machine.waits(), command=ends))
        await _kill(spare_node)
        await asyncio.sleep(1.2)
        await containerd.start(spare_node.settings)
        exited = await _answer(running)
        assert (exited.state, exited.exit_code, exited.reason) == ("exited", 255, "Unknown")
        await machine.clean()

    async def test_a_network_that_it_forgot_when_it_was_killed_is_let_go(self, spare_node: ContainerdNode) -> None:
        machine = RealMachine(spare_node, "runc")
        networked = LinuxSecurity()
        running = await machine.run(replace(machine.waits(), security=networked), security=networked)
        [used] = spare_node.settings.run.glob("state/*/netns/*")
        forgotten = used.with_name("cni-forgotten")
        _pin_new_namespace(forgotten)
        await _kill(spare_node)
        await containerd.start(spare_node.settings)
        assert list(spare_node.settings.run.glob("state/*/netns/*")) == [used]
        assert (await _answer(running)).state == "running"
        await machine.clean()

    async def test_kernels_whose_shim_is_gone_are_ended(self, spare_node: ContainerdNode) -> None:
        machine = RealMachine(spare_node, "gvisor")
        lost, kept = await machine.run(machine.waits()), await machine.run(machine.waits())
        await _kill(spare_node)
        for pid in processes_naming(spare_node.settings.run):
            if "containerd-shim" in _name(pid) and (lost.sandbox_id in _name(pid) or lost.id in _name(pid)):
                os.kill(pid, signal.SIGKILL)
        await containerd.start(spare_node.settings)
        kernels = [_name(pid) for pid in processes_naming(spare_node.settings.run) if "runsc-sandbox" in _name(pid)]
        assert len(kernels) == 1
        assert kept.sandbox_id in kernels[0]
        assert (await _answer(kept)).state == "running"
        await machine.clean()

    @pytest.mark.parametrize("handler", ["runc", "gvisor"])
    async def test_shims_that_came_up_too_late_are_ended(self, spare_node: ContainerdNode, handler: str) -> None:
        """The containerd that started them is dead, and the next one has deleted their bundles."""
        machine = RealMachine(spare_node, handler)
        lost, kept = await machine.run(machine.waits()), await machine.run(machine.waits())
        await _kill(spare_node)
        for each in (lost.sandbox_id, lost.id):
            for bundle in spare_node.settings.run.glob(f"state/*.task/k8s.io/{each}"):
                unmount_below(bundle)
                shutil.rmtree(bundle)
        await containerd.start(spare_node.settings)
        async with asyncio.timeout(10):
            while any(lost.sandbox_id in _name(pid) for pid in processes_naming(spare_node.settings.run)):
                await asyncio.sleep(0.05)
        assert (await _answer(kept)).state == "running"
        await machine.clean()

    @pytest.mark.parametrize("handler", ["runc", "gvisor"])
    async def test_stopping_containerd_removes_everything_after_any_kill(
        self, spare_node: ContainerdNode, handler: str
    ) -> None:
        machine = RealMachine(spare_node, handler)
        networked = LinuxSecurity()
        running = await machine.run(replace(machine.waits(), security=networked), security=networked)
        inside = _processes_in(spare_node.cgroup_root)
        assert inside
        await machine.runtime.close()
        for pid in processes_naming(spare_node.settings.run):  # the daemon, shims, gVisor's kernel: all at once
            with contextlib.suppress(ProcessLookupError):  # gVisor's gofer ends by itself when its kernel is killed
                os.kill(pid, signal.SIGKILL)
        await containerd.stop(spare_node.settings)
        assert processes_naming(spare_node.settings.run) == []
        async with asyncio.timeout(10):
            while _processes_in(spare_node.cgroup_root):  # the kernel ends gVisor's stubs a moment after it
                await asyncio.sleep(0.05)
        assert str(spare_node.settings.run) not in Path("/proc/self/mountinfo").read_text()
        assert not spare_node.settings.run.exists()
        assert running.id not in " ".join(os.listdir("/sys/class/net"))

    async def test_containerd_runs_in_the_given_network_namespace(
        self, containerd_node: ContainerdNode, namespace: Path, tmp_path: Path
    ) -> None:
        run = containerd_node.settings.run.with_name(f"{containerd_node.settings.run.name}s")
        settings = replace(containerd_node.settings, root=tmp_path, run=run, network_namespace=namespace)
        try:
            await containerd.start(settings)
            [pid] = processes(settings)
            assert Path(f"/proc/{pid}/ns/net").stat().st_ino == namespace.stat().st_ino
        finally:
            await containerd.stop(settings, remove=True)
        assert not tmp_path.exists()

    async def test_a_start_that_fails_says_what_it_said(self, containerd_node: ContainerdNode, tmp_path: Path) -> None:
        too_long = replace(containerd_node.settings, run=tmp_path / ("x" * 100))
        with pytest.raises(RuntimeError, match="too long"):
            await containerd.start(too_long)


@pytest.fixture
def namespace() -> Iterator[Path]:
    """An empty network namespace."""
    name = f"tarmac-test-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["nsenter", f"--net=/run/netns/{name}", "ip", "link", "set", "lo", "up"], check=True)
    yield Path("/run/netns") / name
    subprocess.run(["ip", "netns", "delete", name], check=True)


def _pin_new_namespace(place: Path) -> None:
    place.touch()
    subprocess.run(["unshare", "--net", "mount", "--bind", "/proc/self/ns/net", str(place)], check=True)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


async def _kill(node: ContainerdNode) -> None:
    [pid] = processes(node.settings)
    os.kill(pid, signal.SIGKILL)
    while processes(node.settings):
        await asyncio.sleep(0.01)


async def _answer(running: Running) -> RuntimeContainer:
    """Return the container's state, once the channel is connected again."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(RuntimeUnreachable):
                return await running.now()
            await asyncio.sleep(0.05)


def _processes_in(cgroup: str) -> list[str]:
    found: list[str] = []
    top = Path("/sys/fs/cgroup/pids")
    for tasks in (top if top.is_dir() else top.parent).glob(f"{cgroup.lstrip('/')}/**/cgroup.procs"):
        with contextlib.suppress(OSError):
            found += tasks.read_text().split()
    return found
