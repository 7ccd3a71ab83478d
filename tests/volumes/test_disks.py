"""Disks are files with a file system of their own: their size is a limit, they grow in use and survive crashes."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tarmac.volumes.interface import Unusable, VolumeNotReady
from tarmac.volumes.linux import ext4
from tarmac.volumes.linux.loops import attached, loops
from tarmac.volumes.linux.mountinfo import mount_at
from tests.volumes.bench import MIB, UID, Bench, claim, content, pod, put

pytestmark = [pytest.mark.root]
DEVICE = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}


def image(bench: Bench) -> str:
    return f"{bench.root}/disks/pv-disk.img"


def capacity(path: str) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


def fill(path: str, size: int) -> None:
    with open(path, "wb") as file:
        file.writelines(b"\xaa" * MIB for _ in range(size // MIB))


def device_size(path: str) -> int:
    with open(path, "rb", buffering=0) as device:
        return device.seek(0, os.SEEK_END)


def overwrite(path: str, content: bytes) -> None:
    with open(path, "r+b", buffering=0) as file:
        file.write(content)


async def test_a_disk_holds_what_was_asked_for_and_no_more(linux: Bench) -> None:
    linux.add_disk("disk", "32Mi")
    path = await linux.path(claim("disk"))
    assert os.stat(image(linux)).st_blocks * 512 < 8 * MIB  # blocks are allocated when written
    fill(f"{path}/fits", 16 * MIB)
    with pytest.raises(OSError) as caught:
        fill(f"{path}/does-not", 32 * MIB)
    assert caught.value.errno == errno.ENOSPC
    usage = (await linux.volumes.usage(UID))["data"]
    assert 20 * MIB < usage.capacity <= 32 * MIB
    assert usage.used > 16 * MIB


async def test_a_disk_grows_while_it_is_used(linux: Bench) -> None:
    linux.add_disk("disk", "32Mi")
    path = await linux.path(claim("disk"))
    put(f"{path}/kept", "text")
    before = capacity(path)
    linux.sources.persistent_volumes["pv-disk"]["spec"]["capacity"]["storage"] = "96Mi"
    if not ext4.can_grow_mounted():
        pytest.skip("this machine withholds CAP_SYS_RESOURCE: a mounted ext4 cannot grow here")
    held = os.open(f"{path}/kept", os.O_RDONLY)
    await linux.volumes.refresh(pod(claim("disk")))
    os.close(held)
    assert capacity(path) > before + 48 * MIB
    assert linux.sources.sizes_told == {"disk": "96Mi"}
    assert content(f"{path}/kept") == "text"


async def test_a_disk_that_cannot_grow_in_use_grows_when_it_is_next_mounted(
    linux: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ext4, "can_grow_mounted", lambda: False)
    linux.add_disk("disk", "32Mi")
    path = await linux.path(claim("disk"))
    put(f"{path}/kept", "text")
    before = capacity(path)
    linux.sources.persistent_volumes["pv-disk"]["spec"]["capacity"]["storage"] = "96Mi"
    await linux.volumes.refresh(pod(claim("disk")))
    assert (capacity(path), linux.sources.sizes_told) == (before, {})
    await linux.volumes.unmount(UID)
    await linux.mount(claim("disk"))
    assert capacity(path) > before + 48 * MIB
    assert linux.sources.sizes_told == {"disk": "96Mi"}
    assert content(f"{path}/kept") == "text"


async def test_growth_that_was_interrupted_is_finished(linux: Bench) -> None:
    linux.add_disk("disk", "32Mi")
    path = await linux.path(claim("disk"))
    before = capacity(path)
    await linux.volumes.unmount(UID)
    os.truncate(image(linux), 96 * MIB)
    assert capacity(await linux.path(claim("disk"))) > before + 48 * MIB


async def test_a_node_without_room_makes_no_disk(linux: Bench) -> None:
    linux.add_disk("disk", "1000Ti")
    with pytest.raises(VolumeNotReady, match=r"the node has \d+ bytes left for disks, this one needs"):
        await linux.mount(claim("disk"))
    assert await linux.volumes.disks() == []


async def test_disks_together_are_never_promised_more_than_there_is(linux: Bench) -> None:
    """They are still empty, and each alone would fit."""
    room = os.statvfs(linux.root)
    most = room.f_bavail * room.f_frsize * 6 // 10
    linux.add_disk("disk", str(most))
    linux.add_disk("other", str(most))
    await linux.mount(claim("disk"))
    with pytest.raises(VolumeNotReady, match=r"the node has \d+ bytes left for disks, this one needs"):
        await linux.mount(claim("other"), uid="another")
    assert await linux.volumes.disks() == ["pv-disk"]


async def test_a_disk_does_not_grow_beyond_the_room_there_is(linux: Bench) -> None:
    linux.add_disk("disk", "32Mi")
    path = await linux.path(claim("disk"))
    put(f"{path}/kept", "text")
    linux.sources.persistent_volumes["pv-disk"]["spec"]["capacity"]["storage"] = "1000Ti"
    await linux.volumes.refresh(pod(claim("disk")))
    assert (os.stat(image(linux)).st_size, linux.sources.sizes_told) == (32 * MIB, {})
    assert content(f"{path}/kept") == "text"


async def test_a_disk_never_shrinks(linux: Bench) -> None:
    linux.add_disk("disk", "64Mi")
    await linux.mount(claim("disk"))
    linux.sources.persistent_volumes["pv-disk"]["spec"]["capacity"]["storage"] = "32Mi"
    await linux.volumes.refresh(pod(claim("disk")))
    assert os.stat(image(linux)).st_size == 64 * MIB


async def test_room_that_files_give_up_is_the_nodes_again(linux: Bench) -> None:
    linux.add_disk("disk", "64Mi")
    path = await linux.path(claim("disk"))
    fill(f"{path}/big", 24 * MIB)
    os.sync()
    full = os.stat(image(linux)).st_blocks * 512
    os.unlink(f"{path}/big")
    async with asyncio.timeout(20):
        while os.stat(image(linux)).st_blocks * 512 > full - 16 * MIB:  # the kernel releases it a moment later
            os.sync()
            await asyncio.sleep(0.1)


async def test_a_block_volume_is_a_device(linux: Bench) -> None:
    linux.add_disk("disk", "16Mi", mode="Block")
    mounted = (await linux.mount(DEVICE))["data"]
    assert mounted.device
    assert stat.S_ISBLK(os.stat(mounted.path).st_mode)
    overwrite(mounted.path, b"\xaa" * 4096)
    assert device_size(mounted.path) == 16 * MIB
    linux.restart()
    assert (await linux.mount(DEVICE))["data"] == mounted
    assert await linux.volumes.sweep({UID}) == []
    assert [loop.device for loop in loops(f"{linux.root}/disks")] == [mounted.path]
    linux.sources.persistent_volumes["pv-disk"]["spec"]["capacity"]["storage"] = "32Mi"
    await linux.volumes.refresh(pod(DEVICE))
    assert device_size(mounted.path) == 32 * MIB
    await linux.volumes.unmount(UID)
    assert not any(linux.leftovers().values())


async def test_two_pods_share_a_device(linux: Bench) -> None:
    linux.add_disk("disk", "16Mi", mode="Block")
    first = (await linux.mount(DEVICE))["data"].path
    assert (await linux.mount(DEVICE, uid="second"))["data"].path == first
    await linux.volumes.unmount(UID)
    assert loops(f"{linux.root}/disks")
    await linux.volumes.unmount("second")
    assert not loops(f"{linux.root}/disks")


async def test_a_link_to_a_device_of_an_earlier_boot_is_renewed(linux: Bench, tmp_path: Path) -> None:
    linux.add_disk("disk", "16Mi", mode="Block")
    await linux.mount(DEVICE)
    await linux.volumes.unmount(UID)
    link = linux.layout.device(UID, "data")
    os.makedirs(os.path.dirname(link))
    os.symlink("/dev/null", link)
    mounted = (await linux.mount(DEVICE))["data"]
    assert os.readlink(link) == mounted.path != "/dev/null"


async def test_a_read_only_claim_cannot_be_written_by_its_pod_alone(linux: Bench) -> None:
    linux.add_disk("disk")
    reader = (await linux.mount(claim("disk", readOnly=True)))["data"]
    assert reader.read_only
    with pytest.raises(OSError, match="Read-only"):
        put(f"{reader.path}/file", "text")
    writer = await linux.path(claim("disk"), uid="second")
    put(f"{writer}/file", "text")
    assert content(f"{reader.path}/file") == "text"


async def test_a_disk_that_was_not_unmounted_is_checked_first(linux: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    linux.add_disk("disk")
    path = await linux.path(claim("disk"))
    put(f"{path}/kept", "text")
    os.sync()
    crashed = f"{linux.root}/crashed"
    shutil.copyfile(image(linux), crashed)  # as after a power cut
    await linux.volumes.unmount(UID)
    os.rename(crashed, image(linux))
    state = ext4.state(image(linux))
    assert state is not None
    assert not state.clean
    assert content(f"{await linux.path(claim('disk'))}/kept") == "text"
    assert "checking a disk that was not unmounted" in capfd.readouterr().err


async def test_a_damaged_disk_is_told_and_not_overwritten(linux: Bench) -> None:
    linux.add_disk("disk")
    await linux.mount(claim("disk"))
    await linux.volumes.unmount(UID)
    overwrite(image(linux), bytes(2 * MIB))
    before = os.stat(image(linux)).st_mtime_ns
    with pytest.raises(VolumeNotReady, match="no ext4 filesystem"):
        await linux.mount(claim("disk"))
    assert os.stat(image(linux)).st_mtime_ns == before
    assert not loops(f"{linux.root}/disks")


async def test_the_pods_group_owns_the_disk(linux: Bench) -> None:
    linux.add_disk("disk")
    path = await linux.path(claim("disk"))
    put(f"{path}/file", "text")
    os.symlink("/etc/hostname", f"{path}/link")
    outside = os.stat("/etc/hostname")
    await linux.volumes.unmount(UID)
    await linux.mount(claim("disk"), securityContext={"fsGroup": 4321})
    assert (os.stat(path).st_gid, stat.S_IMODE(os.stat(path).st_mode)) == (4321, 0o2775)
    assert (os.stat(f"{path}/file").st_gid, stat.S_IMODE(os.stat(f"{path}/file").st_mode)) == (4321, 0o664)
    assert os.lstat(f"{path}/link").st_gid == 4321
    assert (os.stat("/etc/hostname").st_gid, os.stat("/etc/hostname").st_mode) == (outside.st_gid, outside.st_mode)


async def test_a_root_that_is_right_vouches_for_the_rest_if_the_pod_says_so(linux: Bench) -> None:
    linux.add_disk("disk")
    lenient = {"fsGroup": 4321, "fsGroupChangePolicy": "OnRootMismatch"}
    path = await linux.path(claim("disk"), securityContext=lenient)
    put(f"{path}/file", "text")
    os.chown(f"{path}/file", 0, 0)
    await linux.volumes.unmount(UID)
    await linux.mount(claim("disk"), securityContext=lenient)
    assert os.stat(f"{path}/file").st_gid == 0
    await linux.volumes.unmount(UID)
    await linux.mount(claim("disk"), securityContext={"fsGroup": 4321})
    assert os.stat(f"{path}/file").st_gid == 4321


async def test_a_block_device_of_the_node_is_formatted_when_blank_and_else_left_alone(
    linux: Bench, tmp_path: Path
) -> None:
    (tmp_path / "backing").touch()
    os.truncate(tmp_path / "backing", 32 * MIB)
    with attached(str(tmp_path / "backing"), autoclear=True) as (device, _):
        linux.add_disk("disk", local={"path": device})
        path = await linux.path(claim("disk"))
        put(f"{path}/file", "text")
        await linux.volumes.unmount(UID)
        assert content(f"{await linux.path(claim('disk'))}/file") == "text"
        await linux.volumes.unmount(UID)
        await asyncio.to_thread(subprocess.run, ["mkswap", device], check=True, capture_output=True)
        with pytest.raises(VolumeNotReady, match=r"no ext4 filesystem on .*, but swap"):
            await linux.mount(claim("disk"))
        await linux.volumes.unmount(UID)


async def test_only_a_filesystem_can_be_filled_from_an_image(linux: Bench) -> None:
    linux.add_disk("disk", mode="Block")
    note = {"compute.datumapis.com/populate-from-image": "registry/seed:1"}
    linux.sources.claims["default/disk"]["metadata"]["annotations"] = note
    with pytest.raises(Unusable, match="only a disk with a filesystem"):
        await linux.mount(claim("disk"))


async def test_an_images_files_arrive_as_they_are(linux: Bench, tmp_path: Path) -> None:
    root = tmp_path / "image"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_text("#!")
    os.chmod(root / "bin/tool", 0o4755)
    os.link(root / "bin/tool", root / "bin/again")
    os.chown(root / "bin", 1000, 1001)
    os.utime(root / "bin/tool", (1, 2))
    os.mkfifo(root / "pipe")
    os.mknod(root / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.setxattr(root / "bin/tool", "user.note", b"1")
    linux.sources.images["seed"] = str(root)
    linux.add_disk("disk")
    note = {"compute.datumapis.com/populate-from-image": "seed"}
    linux.sources.claims["default/disk"]["metadata"]["annotations"] = note
    path = await linux.path(claim("disk"))
    tool = os.stat(f"{path}/bin/tool")
    assert (stat.S_IMODE(tool.st_mode), tool.st_mtime, tool.st_nlink) == (0o4755, 2, 2)
    assert (os.stat(f"{path}/bin").st_uid, os.stat(f"{path}/bin").st_gid) == (1000, 1001)
    assert os.getxattr(f"{path}/bin/tool", "user.note") == b"1"
    assert sorted(os.listdir(path)) == ["bin", "lost+found"]


async def test_an_image_that_does_not_fit_leaves_no_disk(linux: Bench, tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    fill(str(tmp_path / "image/big"), 40 * MIB)
    linux.sources.images["seed"] = str(tmp_path / "image")
    linux.add_disk("disk", "32Mi")
    note = {"compute.datumapis.com/populate-from-image": "seed"}
    linux.sources.claims["default/disk"]["metadata"]["annotations"] = note
    with pytest.raises(VolumeNotReady, match="No space left"):
        await linux.mount(claim("disk"))
    assert os.listdir(f"{linux.root}/disks/staging") == []
    assert os.listdir(f"{linux.root}/disks") == ["staging"]
    linux.sources.persistent_volumes["pv-disk"]["spec"]["capacity"]["storage"] = "96Mi"
    assert os.path.getsize(f"{await linux.path(claim('disk'))}/big") == 40 * MIB


async def test_no_tool_is_told_by_its_package(linux: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    linux.add_disk("disk")
    monkeypatch.setattr(ext4, "_SBIN", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(VolumeNotReady, match=r"mkfs\.ext4 is not installed on this node"):
        await linux.mount(claim("disk"))


async def test_a_mounted_disk_is_where_the_pod_looks(linux: Bench) -> None:
    linux.add_disk("disk")
    path = await linux.path(claim("disk"))
    found = mount_at(path)
    assert found is not None
    assert (found.kind, found.source.startswith("/dev/loop")) == ("ext4", True)


def test_a_loop_of_the_same_path_in_a_different_mount_namespace_is_left_alone(tmp_path: Path) -> None:
    """Two hosts in boxes of one kernel have the same paths and see each other's loop devices."""
    image = tmp_path / "a.img"
    script = (
        f"mount -t tmpfs none {tmp_path} && truncate -s 1M {image} && device=$(losetup --find --show {image})"
        " && echo attached && read line; losetup --detach $device"
    )
    command = ["unshare", "--mount", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "attached\n"
            assert loops(str(tmp_path)) == []
            image.write_bytes(bytes(MIB))
            assert loops(str(tmp_path)) == []
        finally:
            other.communicate("detach\n", timeout=10)
