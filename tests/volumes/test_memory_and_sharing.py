"""Volumes in memory, volumes shared with the host, and host files that unmounting never changes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.linux.mountinfo import holder_of, mount_at, mounts
from tarmac.volumes.linux.syscalls import MS_BIND, mount
from tests.volumes.bench import MIB, UID, Bench, claim, content, put

pytestmark = [pytest.mark.root]
MEMORY = {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}


def holding(root: str, text: bytes) -> list[str]:
    """Return the files that contain a text."""
    paths = [Path(base, name) for base, _, names in os.walk(root) for name in names]
    return [str(path) for path in paths if text in path.read_bytes()]


class Container:
    """A process in a mount namespace of its own, which receives the host's mounts as a container may."""

    def __init__(self, script: str) -> None:
        command = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", f"echo ready; read go; {script}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def go(self) -> str:
        """Let the script run; return its output."""
        return self._process.communicate("go\n", timeout=10)[0]


async def test_secrets_are_in_memory_alone(linux: Bench) -> None:
    linux.add_secret("keys", key=b"hunter2")
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}, "name": "token"}
    field = {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}
    own = {"name": "own", "downwardAPI": {"items": [field]}}
    for mounted in (await linux.mount({"name": "keys", "secret": {"secretName": "keys"}}, token, own)).values():
        found = mount_at(mounted.path)
        assert found is not None
        assert found.kind == "tmpfs"
    assert all("kubernetes.io~secret" in path for path in holding(linux.root, b"hunter2"))


@pytest.mark.parametrize(("limit", "size"), [("8Mi", 8 * MIB), (None, 64 * MIB), ("2Gi", 64 * MIB)])
async def test_memory_is_bounded_by_the_volume_and_the_pod(linux: Bench, limit: str | None, size: int) -> None:
    source = {"medium": "Memory", **({"sizeLimit": limit} if limit else {})}
    path = await linux.path({"name": "memory", "emptyDir": source})
    found = os.statvfs(path)
    assert found.f_blocks * found.f_frsize == size
    assert (await linux.volumes.usage(UID))["memory"].capacity == size


async def test_the_root_is_shared_once_however_often_an_agent_starts(linux: Bench) -> None:
    for _ in range(3):
        linux.restart()
        await linux.volumes.start()
    assert len([each for each in mounts(linux.root) if each.path == linux.root]) == 1
    assert holder_of(linux.root).shared


async def test_a_mount_made_later_reaches_a_running_container(linux: Bench) -> None:
    path = await linux.path({"name": "scratch", "emptyDir": {}})
    os.mkdir(f"{path}/later")
    container = Container(f"cat {path}/later/file")
    linux.medium.memory(f"{path}/later", None)
    put(f"{path}/later/file", "seen")
    assert container.go() == "seen"


async def test_a_mount_that_a_container_left_is_undone_and_not_emptied(linux: Bench, tmp_path: Path) -> None:
    path = await linux.path({"name": "scratch", "emptyDir": {}})
    (tmp_path / "host").mkdir()
    put(f"{tmp_path}/host/precious", "text")
    os.mkdir(f"{path}/inside")
    mount(f"{tmp_path}/host", f"{path}/inside", "", MS_BIND)
    await linux.volumes.unmount(UID)
    assert content(f"{tmp_path}/host/precious") == "text"
    assert not any(linux.leftovers().values())


async def test_a_mount_that_appears_during_removal_stops_it(linux: Bench, tmp_path: Path) -> None:
    path = await linux.path({"name": "scratch", "emptyDir": {}})
    (tmp_path / "host").mkdir()
    put(f"{tmp_path}/host/precious", "text")
    os.mkdir(f"{path}/inside")

    class Racing(LinuxMedium):
        """Mounts a host folder right after everything was unmounted."""

        def release(self, path: str, *, lazy: bool = False) -> list[str]:
            busy = list(super().release(path, lazy=lazy))
            if path.endswith("/volumes"):
                mount(f"{tmp_path}/host", f"{path}/kubernetes.io~empty-dir/scratch/inside", "", MS_BIND)
            return busy

    linux.volumes._medium = Racing(linux.layout)
    with pytest.raises(OSError):
        await linux.volumes.unmount(UID)
    assert content(f"{tmp_path}/host/precious") == "text"
    linux.restart()
    await linux.volumes.sweep(set())
    assert not any(linux.leftovers().values())


async def test_after_a_reboot_everything_is_there_again(linux: Bench) -> None:
    linux.add_secret("keys", key=b"1")
    linux.add_disk("disk")
    whole = ({"name": "keys", "secret": {"secretName": "keys"}}, MEMORY, claim("disk"))
    before = await linux.mount(*whole)
    put(f"{before['data'].path}/kept", "text")
    await linux.volumes.purge()
    linux.restart()
    await linux.volumes.start()
    assert await linux.mount(*whole) == before
    assert content(f"{before['keys'].path}/key") == "1"
    assert content(f"{before['data'].path}/kept") == "text"


async def test_purging_leaves_disks_and_no_mount(linux: Bench) -> None:
    linux.add_disk("disk")
    await linux.mount(MEMORY, {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}})
    await linux.volumes.purge()
    assert mounts(linux.root) == []
    assert await linux.volumes.disks() == ["pv-disk"]
