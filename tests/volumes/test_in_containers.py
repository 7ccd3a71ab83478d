"""Volumes seen from containers, with the host's kernel and with a kernel of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.agent.node.imageroot import image_root
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import ContainerConfig, Device, LinuxSecurity, Mount
from tarmac.volumes.fake import FakeSources
from tarmac.volumes.interface import MountedVolume
from tests.runtimes.machine import RealMachine, Running
from tests.support.access import no_registry
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.volumes.bench import UID, Bench, claim, content, pod, put

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]
SECRET = {"name": "keys", "secret": {"secretName": "keys"}}
CONFIG = {"name": "config", "configMap": {"name": "settings"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}
MEMORY = {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}
GROUP = 4321
SOMEBODY = LinuxSecurity(host_network=True, user=1000, group=1000, supplemental_groups=(GROUP,))


class Viewing(FakeSources):
    """Sources that show images' files as a node does."""

    def __init__(self, machine: RealMachine, folder: Path) -> None:
        super().__init__()
        settings = machine.node.settings
        socket = settings.endpoint.removeprefix("unix://")
        self._view = image_root(machine.runtime, no_registry(), socket, str(settings.parts.ctr), folder)

    @asynccontextmanager
    async def image_root(self, image: str, pod: JsonObject) -> AsyncGenerator[str]:
        async with self._view(image, pod) as root:
            yield root


@pytest.fixture(params=["runc", "gvisor"])
async def machine(request: pytest.FixtureRequest, containerd_node: ContainerdNode) -> AsyncIterator[RealMachine]:
    made = RealMachine(containerd_node, request.param)
    yield made
    await made.clean()


@pytest.fixture
async def runc(containerd_node: ContainerdNode) -> AsyncIterator[RealMachine]:
    made = RealMachine(containerd_node, "runc")
    yield made
    await made.clean()


def mounts(volumes: Mapping[str, MountedVolume]) -> tuple[Mount, ...]:
    return tuple(Mount(f"/{name}", volume.path, volume.read_only) for name, volume in volumes.items())


async def tries(running: Running, script: str) -> tuple[int, str]:
    result = await running.runtime.exec(running.id, ("sh", "-c", script), 30)
    return result.exit_code, (result.stdout + result.stderr).decode()


async def stop(machine: RealMachine, running: Running) -> None:
    await machine.runtime.stop_sandbox(running.sandbox_id)
    await machine.runtime.remove_sandbox(running.sandbox_id)


async def test_files_follow_their_objects_and_disks_hold_their_limit(linux: Bench, machine: RealMachine) -> None:
    linux.add_secret("keys", key=b"old")
    linux.add_config_map("settings", colour="red")
    linux.add_disk("disk", "32Mi")
    whole: tuple[JsonObject, ...] = (SECRET, CONFIG, SCRATCH, MEMORY, claim("disk"))
    context = {"fsGroup": GROUP}
    volumes = await linux.mount(*whole, securityContext=context)
    part = await linux.volumes.subpath(volumes["scratch"], "inner", UID, "main", 0)
    single = await linux.volumes.subpath(volumes["config"], "colour", UID, "main", 1)
    shown = (*mounts(volumes), Mount("/part", part), Mount("/one/colour", single, read_only=True))
    running = await machine.run(replace(machine.waits(), mounts=shown, security=SOMEBODY))

    assert await running.says("cat", "/keys/key", "/config/colour", "/one/colour") == "oldredred"
    linux.add_secret("keys", key=b"new")
    await linux.volumes.refresh(pod(*whole, securityContext=context))
    assert await running.says("cat", "/keys/key") == "new"

    for place in ("/scratch", "/memory", "/data", "/part"):
        await running.says("sh", "-c", f"echo text > {place}/mine && cat {place}/mine")
    assert await running.says("cat", "/scratch/inner/mine") == "text"
    for place in ("/keys", "/config", "/one/colour"):
        code, said = await tries(running, f"echo x > {place}/new || echo x > {place}")
        assert code != 0, said
    for place, size in (("/memory", 8), ("/data", 48)):
        code, said = await tries(running, f"dd if=/dev/zero of={place}/big bs=1M count={size}")
        assert code != 0
        assert "No space left" in said
    assert content(f"{volumes['scratch'].path}/mine") == "text\n"
    await stop(machine, running)
    await linux.volumes.unmount(UID)
    assert not any(linux.leftovers().values())


async def test_an_image_outlives_the_view_that_it_was_taken_from(
    linux: Bench, runc: RealMachine, tmp_path: Path
) -> None:
    linux.sources = Viewing(runc, tmp_path)
    linux.restart()
    linux.add_disk("disk", "64Mi")
    note = {"compute.datumapis.com/populate-from-image": BUSYBOX}
    linux.sources.claims["default/disk"]["metadata"]["annotations"] = note
    volumes = await linux.mount({"name": "image", "image": {"reference": BUSYBOX}}, claim("disk"))
    running = await runc.run(replace(runc.waits(), mounts=mounts(volumes)))
    assert "busybox" in (await running.says("ls", "/image/bin")).split()
    assert await running.says("cmp", "/image/bin/busybox", "/data/bin/busybox") == ""
    code, said = await tries(running, "echo x > /image/bin/busybox")
    assert (code != 0, "Read-only" in said) == (True, True)
    await stop(runc, running)
    await linux.volumes.unmount(UID)
    assert not any(linux.leftovers().values())


async def test_a_block_volume_is_a_device_inside(linux: Bench, runc: RealMachine) -> None:
    linux.add_disk("disk", "8Mi", mode="Block")
    volume = (await linux.mount(claim("disk")))["data"]
    config = replace(runc.waits(), devices=(Device("/dev/xvda", volume.path, "mrw"),))
    running = await runc.run(config)
    await running.says("sh", "-c", "echo text | dd of=/dev/xvda conv=fsync")
    await stop(runc, running)
    await linux.volumes.unmount(UID)
    with open(f"{linux.root}/disks/pv-disk.img", "rb") as image:  # noqa: ASYNC230
        assert image.read(5) == b"text\n"


async def test_mounts_spread_as_the_container_asked(linux: Bench, runc: RealMachine) -> None:
    path = await linux.path(SCRATCH)
    (Path(path) / "later").mkdir()
    (Path(path) / "own").mkdir()

    def container(name: str, propagation: str, privileged: bool = False) -> ContainerConfig:
        security = LinuxSecurity(host_network=True, privileged=privileged)
        mount = Mount("/scratch", path, propagation=propagation)  # type: ignore[arg-type]
        return replace(runc.waits(name), mounts=(mount,), security=security)

    sandbox = runc.sandbox(security=LinuxSecurity(host_network=True, privileged=True))
    sandbox_id = await runc.make(sandbox)
    deaf = await runc.run_in(sandbox_id, sandbox, container("deaf", "None"))
    hears = await runc.run_in(sandbox_id, sandbox, container("hears", "HostToContainer"))
    both = await runc.run_in(sandbox_id, sandbox, container("both", "Bidirectional", privileged=True))
    linux.medium.memory(f"{path}/later", None)
    put(f"{path}/later/file", "seen")
    assert [await each.says("ls", "/scratch/later") for each in (deaf, hears, both)] == ["", "file", "file"]
    await both.says("sh", "-c", "mount -t tmpfs none /scratch/own && echo mine > /scratch/own/file")
    assert content(f"{path}/own/file") == "mine\n"
    assert await hears.says("cat", "/scratch/own/file") == "mine"
    await stop(runc, hears)
    await linux.volumes.unmount(UID)
    assert not any(linux.leftovers().values())
