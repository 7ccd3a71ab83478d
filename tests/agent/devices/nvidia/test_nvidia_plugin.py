"""The plugin as a process on a fake driver, with an agent's registration and allocation and with gRPC's own client."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.devices.nvidia.gpureport import GpuRow
from tarmac.agent.devices.nvidia.supervising import NvidiaSupervisor, command
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import background
from tests.agent.devices.nvidia.fakedriver import H200, NVML, FakeDriver
from tests.agent.devices.stage import Node, a_node, a_pod, settled, until

RESOURCE = "datumcloud.com/nvidia-h200"
T4 = "datumcloud.com/nvidia-tesla-t4"


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Machine:
    """A node, a driver and a supervised plugin."""

    def __init__(self, node: Node, driver: FakeDriver) -> None:
        self.node = node
        self.driver = driver
        self.events: list[tuple[str, str, str]] = []
        report = node.root / "report.json"
        more = [f"--root={driver.root}", "--interval=0.1"]
        arguments = [*command(node.folder, report, {"h200": "h200"}), *more]
        self.supervisor = NvidiaSupervisor(arguments, report, SystemClock(), lambda *event: self.events.append(event))

    def pid(self) -> int:
        """Return the PID of the running plugin."""
        found = {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_plugin(pid)}
        # A program that it has just started has its command line for a moment.
        [plugin] = [pid for pid in found if _parent(pid) not in found]
        return plugin

    def _is_plugin(self, pid: int) -> bool:
        return f"--root={self.driver.root}".encode() in _command_line(pid).split(b"\0")

    def rows(self) -> list[GpuRow]:
        """The GPUs of the newest report."""
        self.supervisor.read()
        return self.supervisor.report.gpus

    def said(self, reason: str) -> list[str]:
        """Return the messages of the events with a reason."""
        self.supervisor.read()
        return [message for _, why, message in self.events if why == reason]


@asynccontextmanager
async def machine(*products: str, nvml: bool = True) -> AsyncGenerator[Machine]:
    """Run an agent and its plugin."""
    async with a_node() as node:
        one = Machine(node, FakeDriver(node.root / "root", *products, nvml=NVML if nvml else None))
        async with node.agent(), background(one.supervisor.run(), "plugin"):
            yield one


async def test_the_plugin_offers_each_model_and_gives_a_pod_its_gpu() -> None:
    async with machine(H200, "Tesla T4", H200) as one:
        await one.node.has(2, resource=RESOURCE)
        await one.node.has(1, resource=T4)
        pod = a_pod("a", 1, resource=RESOURCE)
        assert await settled(one.node.devices.prepare(pod)) is None
        assert one.node.ids("a", resource=RESOURCE) == ["GPU-00000000"]
        given = one.node.allocator.allot(pod).containers["main"].devices
        assert [each.container_path for each in given.devices] == ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"]
        assert dict(given.envs)["NVIDIA_VISIBLE_DEVICES"] == "GPU-00000000"
        assert all(each.read_only and each.container_path.startswith("/usr/local/nvidia/") for each in given.mounts)
        refusal = await settled(one.node.devices.prepare(a_pod("b", 2, resource=RESOURCE)))
        assert refusal is not None
        assert "Requested: 2, Available: 1" in refusal[1]


async def test_an_xid_takes_a_gpu_out_with_an_event_and_it_comes_back_by_itself() -> None:
    async with machine(H200, H200) as one:
        gpu = one.driver.gpus[1]
        await one.node.has(2, resource=RESOURCE)
        gpu.action = 1
        one.driver.say(gpu)
        one.driver.xid(gpu, 79)
        await one.node.has(1, 2, resource=RESOURCE)
        await until(lambda: one.said("DeviceUnhealthy"))
        assert one.said("DeviceUnhealthy")[0].startswith(f"NVIDIA H200 {gpu.uuid} (datumcloud.com/nvidia-h200): ")
        one.driver.remove(gpu)
        await until(lambda: any("no longer lists it" in each for each in one.said("DeviceUnhealthy")))


async def test_a_killed_plugin_is_restarted_and_a_pod_keeps_its_gpu() -> None:
    async with machine(H200, H200) as one:
        await one.node.has(2, resource=RESOURCE)
        assert await settled(one.node.devices.prepare(a_pod("a", 1, resource=RESOURCE))) is None
        os.kill(one.pid(), signal.SIGKILL)
        await one.node.has(0, 2, resource=RESOURCE)
        await one.node.has(2, resource=RESOURCE)
        assert one.node.ids("a", resource=RESOURCE) == ["GPU-00000000"]
        assert await settled(one.node.devices.prepare(a_pod("b", 1, resource=RESOURCE))) is None
        assert one.node.ids("b", resource=RESOURCE) == ["GPU-00000001"]


async def test_a_restarted_agent_finds_the_plugin_again() -> None:
    async with a_node() as node:
        one = Machine(node, FakeDriver(node.root / "root", H200))
        async with background(one.supervisor.run(), "plugin"):
            for _ in range(2):
                async with node.agent():
                    await node.has(1, resource=RESOURCE)


async def test_a_machine_without_nvml_offers_its_gpus_and_says_so() -> None:
    async with machine(H200, nvml=False) as one:
        await one.node.has(1, resource=RESOURCE)
        await until(lambda: one.said("NvmlUnavailable"))
        assert one.said("NvmlUnavailable")[0].startswith(
            "GPUs are offered without figures, and their health is unknown"
        )


async def test_a_gpu_in_mig_mode_is_reported_and_not_offered() -> None:
    async with machine(H200, H200) as one:
        await one.node.has(2, resource=RESOURCE)
        one.driver.gpus[0].mig = 1
        one.driver.say(one.driver.gpus[0])
        await one.node.has(1, resource=RESOURCE)
        await until(lambda: one.said("DeviceLeftOut"))
        assert one.said("DeviceLeftOut")[0].startswith("GPU GPU-00000000 is in MIG mode")


async def test_the_plugin_answers_a_stock_client_as_the_api_says() -> None:
    async with machine(H200) as one:
        await one.node.has(1, resource=RESOURCE)
        async with grpc.aio.insecure_channel(f"unix://{one.node.folder}/tarmac-nvidia-h200.sock") as channel:
            call: Any = channel.unary_unary("/v1beta1.DevicePlugin/GetDevicePluginOptions")  # pyright: ignore[reportCallIssue]
            assert await call(b"", timeout=5) == b""
            lists: Any = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b"")  # pyright: ignore[reportCallIssue]
            first = pb.ListAndWatchResponse.FromString(await settled(lists.read()))
            assert [(each.ID, each.health) for each in first.devices] == [("GPU-00000000", "Healthy")]
            one.driver.remove(one.driver.gpus[0])
            second = pb.ListAndWatchResponse.FromString(await settled(lists.read()))
            assert [each.health for each in second.devices] == ["Unhealthy"]
            allocate: Any = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")  # pyright: ignore[reportCallIssue]
            for ids, code, why in (
                (["nothing"], grpc.StatusCode.INVALID_ARGUMENT, "datumcloud.com/nvidia-h200 has no GPU 'nothing'"),
                (["GPU-00000000"], grpc.StatusCode.FAILED_PRECONDITION, "is unhealthy: the driver no longer lists it"),
            ):
                request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
                with pytest.raises(grpc.aio.AioRpcError, match=why) as refused:
                    await allocate(request.SerializeToString(), timeout=5)
                assert refused.value.code() == code


async def test_the_plugin_is_small_also_with_a_library_that_keeps_memory() -> None:
    async with machine(H200) as one:
        (one.driver.state / "heavy").touch()
        one.driver.gpus[0].utilization = 77
        one.driver.say(one.driver.gpus[0])
        # A sample by the heavy library has arrived.
        await until(lambda: 0.77 in [row.utilization for row in one.rows()])
        status = Path(f"/proc/{one.pid()}/status").read_text()
        [resident] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")]
        print(f"resident: {resident} kB")
        assert resident < 25_000
        assert "libnvidia-ml" not in Path(f"/proc/{one.pid()}/maps").read_text()


@pytest.mark.parametrize(
    ("trouble", "why"),
    [("crash", "the sampling program was ended by signal 6"), ("broken", "nvmlInit_v2 failed with 9")],
)
async def test_a_plugin_whose_library_fails_offers_its_gpus_without_figures(trouble: str, why: str) -> None:
    async with machine(H200) as one:
        await until(lambda: [row.utilization for row in one.rows()] == [0.4])
        (one.driver.state / trouble).touch()
        await until(lambda: any(why in each for each in one.said("NvmlUnavailable")))
        assert [row.utilization for row in one.rows()] == [None]
        await one.node.has(1, resource=RESOURCE)
        (one.driver.state / trouble).unlink()
        await until(lambda: [row.utilization for row in one.rows()] == [0.4])


async def test_output_of_a_library_is_not_taken_for_a_sample() -> None:
    async with machine(H200) as one:
        (one.driver.state / "chatty").touch()
        one.driver.gpus[0].celsius = 44
        one.driver.say(one.driver.gpus[0])
        await until(lambda: [row.temperature for row in one.rows()] == [44])
        assert one.said("NvmlUnavailable") == []


async def test_a_library_that_hangs_ends_with_the_plugin() -> None:
    async with machine(H200) as one:
        await one.node.has(1, resource=RESOURCE)
        (one.driver.state / "hang").touch()
        told = one.driver.state / "hanging"
        await until(lambda: told.exists() and told.read_text().endswith("\n"))
        hangs = int(told.read_text())
        assert Path(f"/proc/{hangs}").exists()
        os.kill(one.pid(), signal.SIGTERM)
        await until(lambda: not Path(f"/proc/{hangs}").exists())


async def test_a_plugin_without_a_kernel_log_says_so_and_offers_its_gpus() -> None:
    async with machine(H200) as one:
        await one.node.has(1, resource=RESOURCE)
        (one.driver.root / "dev/kmsg").unlink()
        os.kill(one.pid(), signal.SIGKILL)
        await until(lambda: one.said("XidsUnavailable"))
        assert one.said("XidsUnavailable")[0].endswith("/dev/kmsg: No such file or directory")
        await one.node.has(1, resource=RESOURCE)


async def test_xids_of_a_tenants_program_do_not_take_a_gpu_out() -> None:
    async with machine(H200, H200) as one:
        await one.node.has(2, resource=RESOURCE)
        one.driver.kernel_says("NVRM: Xid (PCI:0000:05:00): 79, written by a program", priority=12)
        one.driver.kernel_says("audit: comm=NVRM: Xid (PCI:0000:05:00): 79")
        gpu = one.driver.gpus[1]
        one.driver.xid(gpu, 31)
        await until(lambda: any(row.xids for row in one.rows()))
        assert [row.xids for row in one.rows()] == [{}, {"31": 1}]
        await one.node.has(2, resource=RESOURCE)


async def test_the_plugin_says_why_it_does_not_start(tmp_path: Path) -> None:
    async def ran(*flags: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tarmac.apps.main", "device-plugin", "nvidia", *flags,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, said = await process.communicate()
        return process.returncode, said.decode()

    code, said = await ran(f"--root={tmp_path}")
    assert (code, "NVIDIA's driver is not loaded on this machine; install it" in said) == (1, True)
    driver = FakeDriver(tmp_path / "root")
    code, said = await ran(f"--root={driver.root}")
    assert (code, "the driver serves no GPU" in said) == (1, True)
    code, said = await ran(f"--root={driver.root}", "--names=h200=H 200")
    assert (code, "--names: h200=H 200: a name has at most 56" in said) == (78, True)
