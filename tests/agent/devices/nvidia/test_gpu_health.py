"""Health of GPUs from the kernel's files, device nodes, NVML and XIDs; without NVML it stays unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.devices.nvidia.gpus import QUIET, SETTLE, GpuStates
from tarmac.agent.devices.nvidia.kerneldriver import read_gpus
from tarmac.agent.devices.nvidia.kernellog import Slot
from tarmac.agent.devices.nvidia.nvml import Nvml, NvmlMissing
from tarmac.agent.devices.nvidia.report import critical_before, report, write_report
from tarmac.agent.devices.nvidia.samples import GpuSample
from tarmac.base.clock import ManualClock
from tests.agent.devices.nvidia.fakedriver import H200, NVML, VERSION, FakeDriver


def slot(minor: int) -> Slot:
    """The slot of a fake GPU."""
    return 0, minor + 5, 0


class Machine:
    """A machine with fake GPUs, whose state is read on demand."""

    def __init__(self, root: Path, *products: str, nvml: bool = True) -> None:
        self.driver = FakeDriver(root, *products, nvml=NVML if nvml else None)
        self.nvml = Nvml(f"{self.driver.root}/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{VERSION}") if nvml else None
        self.clock = ManualClock()
        self.states = GpuStates(self.driver.root, self.clock.now)
        self.look()

    def look(self) -> bool:
        """Read the GPUs' state; return True if a health changed."""
        found = read_gpus(self.driver.root)
        return self.states.apply(found, {gpu.uuid: self.sample(gpu.uuid) for gpu in found} if self.nvml else None)

    def sample(self, uuid: str) -> GpuSample:
        """Ask NVML, in this process."""
        assert self.nvml is not None
        figures: dict[str, Any] = self.nvml.sample(uuid)
        return GpuSample(**figures)

    def reasons(self) -> list[str]:
        """Return the reasons of unhealthy GPUs."""
        return [state.reason for state in self.states.states.values()]


def test_nvml_answers_with_figures(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200)
    [state] = machine.states.states.values()
    sample = state.sample
    assert sample is not None
    assert (sample.utilization, sample.memory_used, sample.memory_total) == (0.4, 2 << 30, 140 << 30)
    assert (sample.power, sample.temperature, sample.needs_repair, sample.mig) == (350.0, 51, False, False)
    assert state.healthy


def test_a_gpu_without_nvml_is_offered(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200, nvml=False)
    [state] = machine.states.states.values()
    assert state.healthy
    assert state.sample is None


def test_a_library_that_is_none_or_does_not_initialize_is_reported(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200)
    path = f"{driver.root}/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{VERSION}"
    with pytest.raises(NvmlMissing, match=r"invalid ELF header|file too short"):
        Nvml(path)
    driver.load_nvml(NVML)
    (driver.state / "broken").touch()
    with pytest.raises(NvmlMissing, match="nvmlInit_v2 failed with 9"):
        Nvml(path)


def test_a_gpu_that_falls_off_the_bus_is_unhealthy_until_it_is_listed_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200, H200)
    gpu = machine.driver.gpus[0]
    machine.driver.remove(gpu)
    assert machine.look()
    assert machine.reasons() == ["the driver no longer lists it", ""]
    assert not machine.look()
    (machine.driver.root / f"dev/nvidia{gpu.minor}").unlink()
    machine.driver.add(gpu)
    assert machine.look()
    assert machine.reasons() == ["", ""]


def test_a_missing_device_node_makes_a_gpu_unhealthy(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200)
    (machine.driver.root / "dev/nvidia0").unlink()
    machine.look()
    assert machine.reasons() == ["device node /dev/nvidia0 is missing"]


def test_a_gpu_that_nvml_calls_lost_or_to_be_repaired_is_unhealthy(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200)
    gpu = machine.driver.gpus[0]
    for change, reason in (
        ({"alive": 0}, "NVML reports that it is lost"),
        ({"alive": 1, "action": 1}, "the driver asks for a reset of it, or a restart of the machine"),
        ({"action": 0}, ""),
    ):
        for name, value in change.items():
            setattr(gpu, name, value)
        machine.driver.say(gpu)
        machine.look()
        assert machine.reasons() == [reason]


def test_a_gpu_in_mig_mode_is_left_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200, H200)
    machine.driver.gpus[0].mig = 1
    machine.driver.say(machine.driver.gpus[0])
    assert machine.look()
    assert list(machine.states.states) == ["GPU-00000001"]
    assert "is in MIG mode, which is not offered" in machine.states.left_out["GPU-00000000"]


def test_a_problem_stays_while_nvml_gives_no_sample(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200, H200, H200)
    lost, mig = machine.driver.gpus[0], machine.driver.gpus[2]
    lost.alive, mig.mig = 0, 1
    for gpu in (lost, mig):
        machine.driver.say(gpu)
    machine.look()
    assert machine.reasons() == ["NVML reports that it is lost", ""]
    found = read_gpus(machine.driver.root)
    assert not machine.states.apply(found, None)
    assert machine.reasons() == ["NVML reports that it is lost", ""]
    assert list(machine.states.left_out) == [mig.uuid]
    healthy = machine.states.states["GPU-00000001"].sample
    assert healthy == GpuSample(alive=True, mig=False)
    lost.alive = 1
    machine.driver.say(lost)
    assert machine.look()


def test_an_xid_is_not_forgiven_by_a_driver_that_gives_no_sample(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200)
    machine.states.on_xid(slot(0), 79)
    machine.clock.advance(QUIET - 1)
    assert not machine.states.apply(read_gpus(machine.driver.root), None)
    assert machine.look(), "the driver itself may forgive it"


def test_a_critical_xid_makes_its_gpu_unhealthy_until_the_driver_needs_no_repair(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200, H200)
    gpu = machine.driver.gpus[1]
    assert machine.states.on_xid(slot(1), 79)
    assert machine.reasons() == ["", "XID 79: GPU has fallen off the bus"]
    machine.clock.advance(SETTLE - 1)
    assert not machine.look()
    gpu.action = 2
    machine.driver.say(gpu)
    machine.clock.advance(QUIET * 2)
    assert not machine.look()
    gpu.action = 0
    machine.driver.say(gpu)
    assert machine.look()
    assert machine.reasons() == ["", ""]
    assert machine.states.states[gpu.uuid].xids == {79: 1}


def test_a_driver_without_a_recovery_action_is_believed_after_a_quiet_time(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200)
    gpu = machine.driver.gpus[0]
    gpu.action = -1
    machine.driver.say(gpu)
    machine.states.on_xid(slot(0), 48)
    machine.clock.advance(QUIET - 1)
    assert not machine.look()
    machine.clock.advance(1)
    assert machine.look()


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109, 63, 154])
def test_an_applications_own_error_does_not_make_a_gpu_unhealthy(tmp_path: Path, xid: int) -> None:
    machine = Machine(tmp_path / "root", H200, nvml=False)
    assert not machine.states.on_xid(slot(0), xid)
    assert machine.reasons() == [""]
    assert machine.states.states["GPU-00000000"].xids == {xid: 1}


def test_an_xid_of_a_gpu_that_is_not_offered_takes_no_other_one_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200, H200, nvml=False)
    assert not machine.states.on_xid(slot(7), 79)
    assert machine.reasons() == ["", ""]


def test_a_critical_xid_survives_the_plugin_but_not_the_machine(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", H200, nvml=False)
    machine.states.on_xid(slot(0), 79)
    file = tmp_path / "report.json"
    content = report(machine.states, VERSION, "", {})
    write_report(file, content)
    assert critical_before(file) == {"GPU-00000000": (79, machine.clock.now())}
    again = GpuStates(machine.driver.root, machine.clock.now, critical_before(file))
    again.apply(read_gpus(machine.driver.root), None)
    assert [state.reason for state in again.states.values()] == ["XID 79: GPU has fallen off the bus"]
    write_report(file, {**content, "boot": "another"})
    assert critical_before(file) == {}
    file.write_text('{"boot": 1}')
    assert critical_before(file) == {}
