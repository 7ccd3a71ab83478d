"""Samples of GPUs by a program: it hangs, crashes, prints nonsense or too much, and is gone afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.devices.nvidia.heldnodes import HeldNodes
from tarmac.agent.devices.nvidia.kerneldriver import read_gpus
from tarmac.agent.devices.nvidia.samples import GpuSample, NvmlUnavailable, parsed
from tarmac.agent.devices.nvidia.sampling import MAX_BYTES, NO_LIBRARY, NvmlSampler, sampling_command
from tarmac.base.tasks import background
from tests.agent.devices.nvidia.fakedriver import H200, NVML, VERSION, FakeDriver
from tests.agent.devices.stage import until

GPU = "GPU-00000000"
WHOLE: dict[str, Any] = {
    "alive": True, "mig": False, "utilization": 0.4, "memory_used": 1, "memory_total": 2, "power": 3.5,
    "temperature": 51, "needs_repair": False,
}  # fmt: skip


def shell(script: str, timeout: float = 20.0) -> NvmlSampler:
    """A sampler whose program is a script."""
    return NvmlSampler(["sh", "-c", script, "sh"], timeout)


def living(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_the_program_answers_for_each_gpu(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200, H200, nvml=NVML)
    driver.gpus[1].alive = 0
    driver.say(driver.gpus[1])
    found = await NvmlSampler(sampling_command(driver.root, VERSION)).sample([gpu.uuid for gpu in driver.gpus])
    assert found[GPU] == GpuSample(True, False, 0.4, 2 << 30, 140 << 30, 350.0, 51, False)
    assert not found["GPU-00000001"].alive


async def test_a_driver_without_libraries_starts_no_program(tmp_path: Path) -> None:
    assert sampling_command(tmp_path, VERSION) == []
    with pytest.raises(NvmlUnavailable, match=NO_LIBRARY):
        await NvmlSampler([]).sample([GPU])


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "failed with exit code 3"),
        ("kill -SEGV $$", "was ended by signal 11"),
        ("echo nonsense", "something else than samples"),
        ("exit 0", "something else than samples"),
        ("""echo '{"error": "no library"}'""", "no library"),
        ("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", "more than"),
    ],
)
async def test_a_program_that_fails_or_prints_nonsense_gives_no_sample(script: str, why: str) -> None:
    sampler = shell(f"echo $$ >&2; {script}")
    for _ in range(2):  # the second time as well: nothing is left that hinders it
        with pytest.raises(NvmlUnavailable, match=why):
            await sampler.sample([GPU])


async def test_a_program_that_cannot_be_started_gives_no_sample() -> None:
    with pytest.raises(NvmlUnavailable, match="cannot be started: No such file or directory"):
        await NvmlSampler(["/nonexistent/program"]).sample([GPU])


async def test_a_program_that_hangs_is_killed_at_the_timeout(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    sampler = shell(f"trap '' TERM; echo $$ > {file}; exec sleep 600", timeout=0.5)
    with pytest.raises(NvmlUnavailable, match=r"NVML did not answer within 0.5 s"):
        await sampler.sample([GPU])
    assert not living(int(file.read_text()))


async def test_a_cancelled_sample_kills_its_program(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    sampler = shell(f"trap '' TERM; echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600")
    async with background(sampler.sample([GPU]), "sample"):
        await until(file.exists)
        pid = int(file.read_text())
        assert living(pid)
    assert not living(pid)


async def test_no_second_program_is_started_beside_one_that_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in an uninterruptible call of the driver ignores SIGKILL, as this one's `kill` does."""
    killed: list[int] = []
    monkeypatch.setattr(asyncio.subprocess.Process, "kill", lambda process: killed.append(process.pid))
    sampler = shell("exec sleep 600", timeout=0.2)
    with pytest.raises(NvmlUnavailable, match="did not answer"):
        await sampler.sample([GPU])
    assert "hangs in a call of the driver" in await refusal(sampler)
    assert len(killed) == 1
    os.kill(killed[0], 9)
    async with asyncio.timeout(20):
        while "hangs in a call" in (told := await refusal(sampler)):
            await asyncio.sleep(0.01)
    assert "did not answer" in told, "it ended, so the next one was started"
    os.kill(killed[1], 9)
    await until(lambda: not living(killed[1]))


async def refusal(sampler: NvmlSampler) -> str:
    """Return why there is no sample."""
    with pytest.raises(NvmlUnavailable) as told:
        await sampler.sample([GPU])
    return str(told.value)


async def test_a_program_ends_by_itself_when_its_plugin_was_killed(tmp_path: Path) -> None:
    """Its lifetime is the kernel's alarm: a Python handler would wait for the library's call to return."""
    driver = FakeDriver(tmp_path / "root", H200, nvml=NVML)
    (driver.state / "hang").touch()
    [_, _, module, *rest] = sampling_command(driver.root, VERSION)
    code = f"import sys, {module} as program; program.LIFETIME = 1; sys.exit(program.main(sys.argv[1:]))"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *rest, GPU, stdout=-1)
    assert await asyncio.wait_for(process.wait(), 60) == -14


@pytest.mark.parametrize(
    "change",
    [
        {"alive": 1}, {"alive": None}, {"mig": "no"}, {"utilization": 1.5}, {"utilization": -0.1}, {"power": True},
        {"power": float("nan")}, {"power": float("inf")}, {"temperature": "51"}, {"memory_used": 1 << 61},
        {"memory_total": []}, {"needs_repair": 0},
    ],
)  # fmt: skip
def test_a_sample_with_a_value_that_cannot_be_is_no_sample(change: dict[str, Any]) -> None:
    assert parsed(json.dumps({"gpus": {GPU: WHOLE}}).encode(), [GPU])[GPU].temperature == 51
    with pytest.raises(NvmlUnavailable):
        parsed(json.dumps({"gpus": {GPU: {**WHOLE, **change}}}).encode(), [GPU])


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"null", b"1", b'{"gpus": {}}', b'{"gpus": []}', b'{"gpus": {"GPU-00000000": 1}}', b"\xff\xfe",
     b"[" * 100_000, b'{"gpus": {"GPU-00000000": ' + b"9" * 10_000 + b"}}"],
)  # fmt: skip
def test_a_document_of_another_form_is_no_sample(text: bytes) -> None:
    with pytest.raises(NvmlUnavailable):
        parsed(text, [GPU])


def test_a_reason_is_short() -> None:
    with pytest.raises(NvmlUnavailable) as told:
        parsed(json.dumps({"error": "x" * MAX_BYTES}).encode(), [GPU])
    assert len(str(told.value)) <= 300


def test_nodes_of_healthy_gpus_are_held_open_and_of_others_closed(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200, H200)
    gpus, held = read_gpus(driver.root), HeldNodes(driver.root)

    def opened() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{each}") == "/dev/null" for each in os.listdir("/proc/self/fd"))

    before = opened()
    for now, wanted in ((gpus, 2), (gpus, 2), (gpus[:1], 1), (gpus, 2)):
        held.hold(now)
        assert opened() == before + wanted
    held.close()
    assert opened() == before
    (driver.root / "dev/nvidia0").unlink()
    held.hold(gpus)
    assert opened() == before + 1, "one that cannot be opened is left out"
    held.close()
