"""A real containerd for tests, one for the whole run, with runc, gVisor, the project's images and a network for pods.

The names of the folder in /run, the bridge and the cgroups contain the number of the test process. The fixture removes
them by name after the tests, also when tests failed, and before the tests removes those of test processes that were
killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.runtimes.interface import ContainerConfig, LinuxSecurity, PodIdentity, SandboxConfig
from tarmac.runtimes.parts import NodeParts, PartMissing, find_parts

BUSYBOX = "registry.local/tarmac/busybox:1"
WEB = "registry.local/tarmac/web:1"
_RUN = Path("/run")
_PREFIX = "tarmac-test-"
_BRIDGE_ADDRESS = "02:54:41:52:4d:41"


@pytest.fixture(scope="session")
def containerd_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerdNode]:
    """A containerd that runs in the machine's own network namespace, so that its streams can be reached."""
    if os.geteuid() != 0:
        pytest.skip("needs root: containers cannot be run without it")
    try:
        parts = find_parts(path="")
    except PartMissing as missing:
        pytest.fail(f"{missing} (python -m tools.node_parts)")
    sweep(parts)
    yield from _running(ContainerdNode(parts, tmp_path_factory.mktemp("containerd"), os.getpid()))


@pytest.fixture
def spare_node(containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[ContainerdNode]:
    """A second containerd, which a test may kill."""
    yield from _running(ContainerdNode(containerd_node.settings.parts, tmp_path, os.getpid(), spare=1))


@pytest.fixture
def second_spare_node(containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[ContainerdNode]:
    """A third containerd."""
    folder = tmp_path / "second"
    folder.mkdir()
    yield from _running(ContainerdNode(containerd_node.settings.parts, folder, os.getpid(), spare=2))


def _running(node: ContainerdNode) -> Iterator[ContainerdNode]:
    try:
        node.start()
        yield node
    finally:
        node.stop()


class ContainerdNode:
    """One containerd with its folders, network and cgroups, with the number of a test process in all names."""

    def __init__(self, parts: NodeParts, folder: Path, number: int, *, spare: int = 0) -> None:
        from tarmac.runtimes.containerd import ContainerdSettings

        name = f"{number}{'s' * spare}"
        self.folder = folder
        self.cgroup_root = f"/{_PREFIX}{name}"
        self.bridge = f"tt{name}"
        self.gateway = f"10.{1 + number // 250 % 30 + 30 * spare}.{number % 250}.1"
        self._gateway6 = f"fd5a:{number & 0xFFFF:x}:{spare:d}::1"
        self.settings = ContainerdSettings(
            root=folder / "root",
            run=_RUN / f"{_PREFIX}{name}",
            cni_bin=folder / "cnibin",
            cni_conf=folder / "cni",
            certs=folder / "certs",
            parts=parts,
        )

    @property
    def endpoint(self) -> str:
        """The address of the CRI socket."""
        return self.settings.endpoint

    def start(self) -> None:
        """Start with a network."""
        self._make_network()
        asyncio.run(self._start())

    async def _start(self) -> None:
        from tarmac.runtimes import containerd

        await containerd.start(self.settings)
        async with asyncio.timeout(20):
            while not await containerd.answers(self.settings):
                await asyncio.sleep(0.05)

    def stop(self) -> None:
        """Leave nothing."""
        from tarmac.runtimes import containerd

        asyncio.run(containerd.stop(self.settings, remove=True))
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)
        remove_cgroups(self.cgroup_root)

    def sandbox(self, name: str = "", **more: Any) -> SandboxConfig:
        """Return the configuration of a new pod; the defaults suit most tests."""
        uid = str(uuid.uuid4())
        pod = PodIdentity("default", name or f"pod-{uid[:8]}", uid)
        logs = self.folder / "logs" / uid
        logs.mkdir(parents=True)
        settings: dict[str, Any] = {"hostname": pod.name, "log_directory": str(logs)}
        settings["cgroup_parent"] = f"{self.cgroup_root}/pod{uid}"
        return SandboxConfig(pod, **{**settings, **more})

    def container(self, name: str = "main", *command: str, **more: Any) -> ContainerConfig:
        """Return the configuration of a busybox that runs a command, by default one that waits and ends on SIGTERM."""
        waits = ("sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait")
        settings: dict[str, Any] = {"attempt": 0, "image": BUSYBOX, "image_name": BUSYBOX}
        settings |= {"command": command or waits, "log_path": f"{name}.log"}
        return ContainerConfig(name, **{**settings, **more})

    def _make_network(self) -> None:
        """Configure a bridge with Debian's plugins. The test makes the bridge: the plugin would turn on forwarding."""
        # Of its own address: that of a port would change with the Pods, and break their connections to the host.
        _ip("link", "add", self.bridge, "address", _BRIDGE_ADDRESS, "type", "bridge")
        _ip("addr", "add", f"{self.gateway}/24", "dev", self.bridge)
        _ip("addr", "add", f"{self._gateway6}/64", "dev", self.bridge, "nodad")
        _ip("link", "set", self.bridge, "up")
        self.settings.cni_bin.mkdir(parents=True)
        self.settings.cni_conf.mkdir(parents=True)
        for plugin in ("bridge", "host-local"):
            (self.settings.cni_bin / plugin).symlink_to(self.settings.parts.cni / plugin)
        document = {"cniVersion": "0.4.0", "name": self.bridge, "plugins": [self._plugin()]}
        (self.settings.cni_conf / "10-test.conflist").write_text(json.dumps(document))

    def _plugin(self) -> dict[str, Any]:
        four = {"subnet": f"{self.gateway[:-2]}.0/24", "gateway": self.gateway}
        six = {"subnet": f"{self._gateway6[:-1]}/64", "gateway": self._gateway6}
        addresses = {
            "type": "host-local",
            "dataDir": str(self.folder / "addresses"),
            "ranges": [[four], [six]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
        }
        return {"type": "bridge", "bridge": self.bridge, "ipam": addresses}


def no_network() -> LinuxSecurity:
    """Configure sandboxes that use the host's network, which needs no set-up."""
    return LinuxSecurity(host_network=True)


def sweep(parts: NodeParts) -> None:
    """Remove the leftovers of test processes that have ended."""
    for run in _RUN.glob(f"{_PREFIX}*"):
        found = re.fullmatch(rf"{_PREFIX}(\d+)(s*)", run.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            ContainerdNode(parts, Path("/nonexistent"), int(found[1]), spare=len(found[2])).stop()


def remove_cgroups(name: str) -> None:
    """A cgroup and all below it, in every hierarchy of either version. Their processes must be gone."""
    controllers = [path for path in Path("/sys/fs/cgroup").glob("*") if path.is_dir()]
    for top in (Path("/sys/fs/cgroup"), *controllers):
        group = top / name.lstrip("/")
        folders = [path for path in group.rglob("*") if path.is_dir()] if group.is_dir() else []
        for folder in (*sorted(folders, reverse=True), group):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _ip(*arguments: str) -> None:
    if shutil.which("ip") is None:
        pytest.fail("no `ip` on the PATH: install iproute2")
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
